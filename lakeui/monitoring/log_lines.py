"""Log lines: one JSON object each for machines, or plain text for a terminal; never with a secret.

Every line of a request carries its `request_id`, every line of a job's attempt its `job_id`.
"""

import re
from collections.abc import MutableMapping
from typing import Any

import structlog

SECRETS = (
    (re.compile(r"\blake_[A-Za-z0-9]{4,}"), "lake_…"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 …"),
    (re.compile(r"(/login/)[^/\s\"'?]+"), r"\1…"),
    (re.compile(r"(://)[^/\s:@]{0,200}:[^/\s@]{1,200}@"), r"\1…@"),
    (re.compile(r"(?i)((?:password|secret|account[_.]?key|access[_.]?key|sas_token)[\w.]{0,30}['\"]?\s{0,3}[=:]"
                r"\s{0,3}['\"]?)[^'\"\s,;&}]+"), r"\1…"),
    (re.compile(r"(?i)((?:\bx-amz-(?:signature|credential|security-token)|[?&;](?:sig|code|id_token_hint))=)[^&\s'\"]+"), r"\1…"),
)  # fmt: skip
"""Patterns of a token, a sign-in link, a URL's password or a store's key, with their replacements.

Each begins with a rare text and is bounded in length: lines hold text sent by people.
"""
MAX_TEXT = 64 * 1024

_BEFORE: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:  # noqa: ANN401 - structlog's
    """Redact the secrets in a log line's texts."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = redact_text(value)
    return event


def redact_text(text: str) -> str:
    """Redact the secrets in a text, and cut a very long one."""
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    for pattern, kept in SECRETS:
        text = pattern.sub(kept, text)
    return text


def configure(level: str, *, as_json: bool) -> dict[str, Any]:
    """Make structlog write through Python's logging; return Django's `LOGGING`."""
    structlog.configure(
        processors=[*_BEFORE, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: Any = structlog.dev.ConsoleRenderer(colors=False)
    if as_json:
        last = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": _BEFORE,
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            redact_event,
            last,
        ],
    }
    console = {"class": "logging.StreamHandler", "formatter": "line"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"console": console},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {"celery.beat": {"level": "WARNING"}, "py4j": {"level": "WARNING"}},
    }
