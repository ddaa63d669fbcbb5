"""A message of the outbox in its channel's format: JSON of ours, Slack's, Teams', or a mail.

The body of a message is the same at each try, and so is its id, by which receivers recognize it.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage

from lakeui.monitoring.models import AlertChannel, AlertDelivery

SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins
_CHAT_ITEMS = 15
_TITLE, _TEXT = 150, 600
Item = Mapping[str, Any]


def json_of(delivery: AlertDelivery) -> bytes:
    """Return the body for the delivery's channel."""
    shapes = {AlertChannel.Kind.SLACK: _slack, AlertChannel.Kind.TEAMS: _teams}
    shape = shapes.get(AlertChannel.Kind(delivery.channel.kind), _plain)
    return json.dumps(shape(delivery), ensure_ascii=False).encode()


def headers_of(delivery: AlertDelivery, body: bytes, secret: str, now_s: int) -> dict[str, str]:
    """Return the headers of a POST; with a secret, signed as standardwebhooks.com specifies."""
    headers = {"Content-Type": "application/json", "User-Agent": "lakeui", "Connection": "close"}
    if secret:
        headers |= {
            "webhook-id": str(delivery.pk),
            "webhook-timestamp": str(now_s),
            "webhook-signature": signature(secret, str(delivery.pk), now_s, body),
        }
    return headers


def signature(secret: str, message_id: str, now_s: int, body: bytes) -> str:
    """HMAC-SHA256 of id, timestamp and body with dots between: `v1,` and base64."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{message_id}.{now_s}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def mail_of(delivery: AlertDelivery, recipients: Sequence[str]) -> EmailMessage:
    """Return the delivery as plain text. Every try of a mail has the same Message-ID."""
    content = delivery.content
    lines = [content["title"], ""]
    for item in content["items"]:
        lines += [f"- {item['title']}", *(f"  {line}" for line in _details(item)), ""]
    lines += [_rest(content, len(content["items"]))] if content["more"] else []
    host = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "lakeui"
    return EmailMessage(
        subject=" ".join(content["title"].split())[:_TITLE],
        body="\n".join(lines).rstrip() + "\n",
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=list(recipients),
        headers={
            "Message-ID": f"<{delivery.pk}@{host}>",
            "Auto-Submitted": "auto-generated",
        },
    )


def _plain(delivery: AlertDelivery) -> dict[str, Any]:
    content = delivery.content
    return {
        "id": str(delivery.pk),
        "type": "test" if delivery.is_test else "alert",
        "timestamp": delivery.created_at.isoformat(),
        **content,
    }


def _slack(delivery: AlertDelivery) -> dict[str, Any]:
    content = delivery.content
    blocks = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": content["title"][:_TITLE]},
        }
    ]
    for item in content["items"][:_CHAT_ITEMS]:
        title = _escape_slack(item["title"])
        head = f"*<{item['url']}|{title}>*" if item["url"] else f"*{title}*"
        text = "\n".join([head, *map(_escape_slack, _details(item, with_url=False))])
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text[:3000]}})
    if rest := _rest(content, _CHAT_ITEMS):
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": rest}})
    return {"text": _escape_slack(content["title"]), "blocks": blocks}


def _teams(delivery: AlertDelivery) -> dict[str, Any]:
    """Return an adaptive card for the workflow "When a Teams webhook request is received"."""
    content = delivery.content
    body: list[dict[str, Any]] = [_block(content["title"], weight="Bolder", size="Medium")]
    for item in content["items"][:_CHAT_ITEMS]:
        body.append(_block(item["title"], weight="Bolder", separator=True))
        body += [_block(line) for line in _details(item)]
    if rest := _rest(content, _CHAT_ITEMS):
        body.append(_block(rest))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _block(text: str, **style: Any) -> dict[str, Any]:  # noqa: ANN401 - a card's
    return {"type": "TextBlock", "text": _escape_markdown(text)[:_TEXT], "wrap": True, **style}


def _details(item: Item, *, with_url: bool = True) -> list[str]:
    lines = [item["text"][:_TEXT]] if item["text"] else []
    if item["since"]:
        lines.append(f"Since {item['since'][:16].replace('T', ' ')} UTC")
    if item.get("is_over"):
        lines.append("It has ended.")
    if with_url and item["url"]:
        lines.append(item["url"])
    return lines


def _rest(content: Mapping[str, Any], shown: int) -> str:
    more = content["more"] + max(0, len(content["items"]) - shown)
    return f"And {more:,} more." if more else ""


def _escape_slack(text: str) -> str:
    """Escape text for Slack, so that it begins no link or mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_markdown(text: str) -> str:
    """Markdown's links and emphasis as text: a name in a card may not lead anywhere."""
    return "".join(f"\\{letter}" if letter in "\\[]*_`" else letter for letter in text)
