"""Tags and filters of templates: marks, sizes, operations; `moments` has times."""

import json
import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django import template
from django.db.models import TextChoices
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from engine.conflict_facts import Rule, Verdict
from engine.conflicts.isolation import IsolationLevel
from lakeui.catalog import units
from lakeui.catalog.health import Health
from lakeui.conflicts.lanes.bars import BarEnd
from lakeui.conflicts.lanes.narrowing import LaneOutcome
from lakeui.conflicts.replay.overlaps import WriteOutcome
from lakeui.conflicts.statements.text import plain_condition
from lakeui.jobs.models import Job, JobAttempt
from lakeui.pages import file_names, moments, operations
from lakeui.pages.moments import NOT_RECORDED

register = template.Library()
for tell in (
    moments.when,
    moments.clock,
    moments.clock_short,
    moments.next_try,
    moments.stamp,
    moments.ago,
    moments.old,
):
    register.simple_tag(tell)
register.filter(moments.format_time_left)
register.filter(moments.format_span)

WORDS: Mapping[str, type[StrEnum] | type[TextChoices]] = {
    "BarEnd": BarEnd,
    "Ending": LaneOutcome,
    "Level": IsolationLevel,
    "Outcome": JobAttempt.Outcome,
    "Rule": Rule,
    "State": Job.State,
    "Verdict": Verdict,
    "WriteOutcome": WriteOutcome,
}
"""The words available to templates by name: see `is_word`."""
SIGNS: Mapping[str, str] = {
    # of a job or an attempt
    Job.State.QUEUED: "ring",
    "active": "run",
    Job.State.RUNNING: "run",
    Job.State.COMMITTING: "run",
    Job.State.CANCELLING: "run",
    Job.State.SUCCEEDED: "ok",
    Job.State.FAILED: "x",
    Job.State.CONFLICTED: "x",
    JobAttempt.Outcome.COMMITTED: "ok",
    JobAttempt.Outcome.LOST: "x",
    # of a step of a run
    "waiting": "ring",
    "now": "run",
    "done": "ok",
    "stopped": "x",
    # of a condition
    "holds": "ok",
    "some": "warn",
    "some fall back": "warn",
    "fails": "x",
    "not known": "what",
    # of a suggested fix
    "passes": "ok",
    "may pass": "half",
    "aborted": "x",
}
"""The mark before a state."""
_NAME_SHOWN, _DIRECTORY_SHOWN = 22, 24
_KEPT = 512  # marks and operations are drawn by the hundred
_WORD = re.compile(r"\s*(?:'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|[^\s'`]+)+")
_SHORTEST = 8
_LONGEST = 1000
_SHORT_REASONS = {
    "partitioned": "partitioned",
    "identity": "identity",
    "eletionVectors": "DVs off",
    "eletion vectors off": "DVs off",
}


@register.filter("is")
def is_word(value: object, names: str) -> bool:
    """Whether a value is one of the code's words: `job.state|is:"State.RUNNING State.COMMITTING"`.

    A template that compared texts would go on using a word that the code no longer means.
    """
    words = (name.partition(".") for name in names.split())
    return any(value == WORDS[kind][member] for kind, _, member in words)


@register.filter
def health_label(value: str) -> str:
    """Say what a table's health means."""
    return str(Health(value).label)


@register.simple_tag
@lru_cache(maxsize=_KEPT)
def icon(name: str) -> SafeString:
    """Render a 16 px icon beside a word."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#i-{}"/></svg>',
        static("icons.svg"),
        name,
    )


@register.simple_tag
@lru_cache(maxsize=_KEPT)
def mark(name: str, label: str = "") -> SafeString:
    """Render a 12 px shape; with a label if no word stands beside it."""
    speech = (
        format_html('role="img" aria-label="{}"', label)
        if label
        else SafeString('aria-hidden="true"')
    )
    return format_html(
        '<svg width="12" height="12" {}><use href="{}#m-{}"/></svg>',
        speech,
        static("icons.svg"),
        name,
    )


@register.simple_tag
def sign(state: str, label: str = "") -> SafeString:
    """Render the mark of a state, see `SIGNS`; an unlisted one has a dash."""
    return mark(SIGNS.get(state, "none"), label)


@register.simple_tag
def link(name: str, *args: object, **parameters: object) -> str:
    """Return the address of a page, followed by its parameters."""
    return f"{reverse(name, args=args)}?{urlencode(parameters)}"


@register.simple_tag
@lru_cache(maxsize=_KEPT)
def op(operation: str) -> SafeString:
    """Render an operation's name behind its color."""
    if not operation:
        return NOT_RECORDED
    family = operations.family_of(operation)
    return format_html('<span class="op op-{}">{}</span>', family, operations.name_of(operation))


@register.simple_tag
def ver(table_pk: int | None, version: int | None) -> SafeString:
    """Render a version with a link to its page; -1 is a read before the table existed."""
    if version is None:
        return NOT_RECORDED
    if version < 0:
        return format_html('<span class="none">{}</span>', "no table yet")
    if table_pk is None:
        return format_html('<span class="ver">v{}</span>', version)
    return format_html(
        '<a class="ver" href="{}{}/">v{}</a>', pages_of_versions(table_pk), version, version
    )


@lru_cache(maxsize=_KEPT)
def pages_of_versions(table_pk: int) -> str:
    """Return a version page's address up to the version: pages have hundreds of them."""
    return reverse("table-version", args=[table_pk, 0]).removesuffix("0/")


@register.simple_tag
def size(size_bytes: int | None, sign: bool = False) -> SafeString:
    """Bytes in IEC units, the exact number in the title."""
    if size_bytes is None:
        return NOT_RECORDED
    plus = "+" if sign and size_bytes > 0 else ""
    exact = f"{units.format_count(size_bytes)} bytes"
    return format_html('<span title="{}">{}{}</span>', exact, plus, units.format_bytes(size_bytes))


@register.filter
def count(number: float | None) -> str:
    return "" if number is None else units.format_count(number)


@register.filter
def duration(milliseconds: float | None) -> str:
    return "" if milliseconds is None else units.format_duration(milliseconds)


@register.filter
def seconds(number: float | None) -> str:
    return "" if number is None else units.format_duration(number * 1000)


@register.filter
def family(operation: str) -> str:
    return f"op-{operations.family_of(operation or '')}"


@register.filter
def pos(number: float) -> str:
    """Format a position in a chart, in per cent: short, with a point."""
    return units.format_position(number)


@register.filter
def plural(number: int | None, words: str) -> str:
    """Format 1 file, 2 files: `{{ n|plural:"file,files" }}`."""
    one, many = words.split(",")
    return f"{units.format_count(number or 0)} {one if number == 1 else many}"


@register.simple_tag
def copy(text: str, what: str) -> SafeString:
    """Render a copy button; it is hidden without scripts."""
    return format_html(
        '<button class="copy" type="button" data-copy="{}" aria-label="Copy {}" title="Copy {}">'
        "{}</button>",
        text,
        what,
        what,
        icon("copy"),
    )


@register.filter
def lookup(values: Mapping[Any, Any] | None, key: object) -> object:
    """Return the value of a mapping at a key, nothing if there is none."""
    return values.get(key) if values else None


@register.filter
def verb(kind: str) -> str:
    """Return a job's kind as its SQL word."""
    return (kind or "").replace("_", " ").upper()


@register.filter
def words(text: str) -> list[str]:
    return text.split()


@register.filter
def space_unit(range_name: str) -> str:
    """Format 24h as people write it: 24 h."""
    return f"{range_name[:-1]} {range_name[-1]}"


@register.filter
def compact(value: object) -> str:
    """Render text as it is, anything else as JSON in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def metric(value: object) -> str:
    """Format a metric's number with separators; anything else stays as it was written."""
    text = str(value)
    return units.format_count(int(text)) if text.lstrip("-").isdecimal() else text


@register.filter
def text_before(text: str, position: int) -> str:
    return text[: max(position, 0)]


@register.filter
def text_after(text: str, position: int) -> str:
    return text[max(position, 0) :]


@register.filter
def tail(text: str, length: int) -> str:
    """Return the end of a path, which distinguishes files."""
    return text if len(text) <= length else "…" + text[-length + 1 :]


@register.filter
def short_path(path: str) -> str:
    """Shorten a file's path: its directory's end, and the start of its name."""
    directory, _, name = path.rpartition("/")
    short = name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 1]}…"
    return f"{tail(directory, _DIRECTORY_SHOWN)}/{short}" if directory else short


@register.filter
def first_up(text: str) -> str:
    """Capitalize a sentence; a property's name stays as it is."""
    return text if "." in text.partition(" ")[0] else text[:1].upper() + text[1:]


@register.filter
def ticks(text: str) -> SafeString:
    """Render text in backticks as code."""
    parts = text.split("`")
    return format_html_join(
        "",
        "{}",
        ((format_html("<code>{}</code>", p) if i % 2 else p,) for i, p in enumerate(parts)),
    )


@register.simple_tag(takes_context=True)
def curl(context: Mapping[str, Any], address: str, body: object = None) -> str:
    """Return the equivalent REST request by curl; with a body, a POST."""
    parts = ["curl", "-H", "'Authorization: Bearer '\"$LAKEUI_TOKEN\""]
    if isinstance(body, str):
        parts += ["-F", shlex.quote(f"file=@{body}")]
    elif body is not None:
        text = json.dumps(body, ensure_ascii=False, default=str)
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(text)]
    return " ".join([*parts, shlex.quote(f"{context['frame'].origin}{address}")])


@register.filter
def as_json(value: object) -> str:
    """JSON text, for a hidden field."""
    return json.dumps(value, default=dict)


_SQL = re.compile(
    r"(?P<s>'(?:[^']|'')*')|(?P<c>--[^\n]*|…)|\b(?P<k>ADD|ALTER|AND|AS|BETWEEN|BY|CLUSTER|COLUMNS?"
    r"|DELETE|DROP|EXISTS|FROM|IN|INSERT|INTO|IS|LIKE|MATCHED|MERGE|NOT|NULL|OF|ON|OPTIMIZE|OR|ORDER"
    r"|OVERWRITE|REORG|REPLACE|RESTORE|SELECT|SET|SOURCE|TABLE|TBLPROPERTIES|THEN|TO|TRUNCATE|UNSET"
    r"|UPDATE|USING|VACUUM|VALUES|VERSION|WHEN|WHERE|ZORDER)\b"
)


@register.filter
def sql(text: str) -> SafeString:
    """Mark the keywords, texts and comments of a statement."""
    parts, end = [], 0
    for match in _SQL.finditer(text):
        parts.append(("", text[end : match.start()]))
        parts.append((match.lastgroup or "", match[0]))
        end = match.end()
    parts.append(("", text[end:]))
    return format_html_join(
        "",
        "{}",
        ((format_html('<span class="{}">{}</span>', c, p) if c else p,) for c, p in parts),
    )


@register.filter
def place(number: float) -> str:
    """Format a position without its unit, for a path."""
    return f"{number:.2f}"


register.filter("file_head", file_names.file_head)
register.filter("plain_condition", plain_condition)


@register.filter
def short_reason(reason: str) -> str:
    """Shorten the reason why a table has no row-level concurrency."""
    short = (text for sign, text in _SHORT_REASONS.items() if sign in reason)
    return next(short, reason[:24] or "no")


@register.filter
def short_vectors(reason: str) -> str:
    """Shorten a reason: DVs for deletion vectors."""
    return reason.replace("deletion vectors", "DVs")


@register.filter
def short_operation(name: str) -> str:
    """Shorten an operation's name for a narrow column."""
    return name.replace("OPTIMIZE ZORDER BY", "ZORDER BY")


@register.filter
def check_head(operation: str) -> str:
    """Shorten an operation for the head of a narrow column of checks: the first word is enough."""
    first, _, rest = operation.partition(" ")
    return operation if len(operation) <= 9 or not rest else first


@register.filter
def short_condition(text: str, length: int) -> str:
    """Return the start of a condition, cut between its words and never inside a text."""
    return short_text(plain_condition(text), length)


@register.filter
def short_text(text: str, length: int) -> str:
    """Return the start of a text with statements, cut as `short_condition` cuts."""
    if len(text) <= length:
        return text
    end = 0
    for match in _WORD.finditer(text):
        if match.end() > length - 2 and end >= _SHORTEST:
            break
        end = match.end()
    end = min(end, max(length, _LONGEST))  # a literal may be of any size
    return text if end >= len(text) else f"{text[:end]} …"


@register.filter
def link_versions(text: str, conflict: Any) -> SafeString:  # noqa: ANN401 - a conflict of a known table
    """Link versions and the table in a sentence of the engine to their pages."""
    table = getattr(conflict, "table", None)
    if table is None:
        return format_html("{}", text)
    names = "|".join(map(re.escape, sorted({table.name, table.uri}, key=len, reverse=True)))
    parts = re.split(rf"([Vv]ersion \d+|{names})", text)
    return format_html_join("", "{}", ((_link_part(part, table),) for part in parts))


def _link_part(part: str, table: Any) -> str:  # noqa: ANN401
    if part in (table.name, table.uri):
        return format_html('<a href="{}">{}</a>', reverse("table", args=[table.pk]), table.name)
    if re.fullmatch(r"[Vv]ersion \d+", part):
        return ver(table.pk, int(part.split()[1]))
    return part
