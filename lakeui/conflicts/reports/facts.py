"""What a message says in its own sentences, outside of the winner's commit: patterns, fact by fact.

The first pattern that matches tells; its group is the fact. Sentences of delta-spark, Databricks,
delta-rs, Trino and this engine.
"""

import re
from collections.abc import Iterator, Mapping

from lakeui.conflicts.reports.marks import Place

_OURS = r"\b[Vv]ersion \d{1,18} \([^)]{1,60}\)"
_VALUE = r"\w{1,100}=[^\s,;()\[\]]{1,200}"

PATTERNS: Mapping[str, tuple[str, ...]] = {
    "table": (
        rf"{_OURS} of (\S{{1,300}})",
        r"\b(?:to|from|in) (?:the )?table (.{1,300}?) \(?committed at version",
    ),
    "winning_version": (
        r"committed at version (\d{1,18})",
        r"\bVersion (\d{1,18}) \([A-Z]",
        r"\bversion:? (\d{1,18}) already exists",
        r"\bVersionAlreadyExists\((\d{1,18})\)",
        r"existing table version:? (\d{1,18})",
        r"actual version: (\d{1,18})",
        r"_delta_log/0{0,19}(\d{1,18})\.json",
    ),
    "winner_operation": (
        r"\bVersion \d{1,18} \(([A-Z][A-Z ]{1,60})\)",
        r"(?i:a concurrent) ([A-Za-z][A-Za-z ]{1,60}?) (?:added|deleted) data",
    ),
    "read_version": (
        r"reading version (\d{1,18})",
        r"Commit started at version: (\d{1,18})",
        r"Expected transaction log version: (\d{1,18})",
    ),
    "current_operation": (r"\bthis ([A-Z][A-Z ]{1,30}), reading version",),
    "partitions": (
        r"\bpartition(?:s|\(s\))? ((?:\[[^\]]{1,300}\](?:, ?)?){1,50})",
        r"\b\d+ files? in (\w+=.{1,500}?) that this ",
        rf"\bpartition(?:s|\(s\))? \(?({_VALUE}(?:(?:, ?|/){_VALUE}){{0,20}})",
    ),
    "winner_rows": (
        r'"numTargetRowsInserted"\s{0,9}:\s{0,9}"?([1-9]\d{0,17})\b',
        r'"numOutputRows"\s{0,9}:\s{0,9}"?([1-9]\d{0,17})\b',
    ),
    "file": (r"\(for example (.{1,1000}?)(?: in partition .{0,300}?)?\) by a concurrent",),
}
_STREAM = re.compile(
    r"\bQuery (?:\[|(\S{1,120}) (?:\[id = |terminated with))"
    r"|\b(StreamingQueryException|MicroBatchExecution)\b"
)


def told(fact: str, message: str) -> str | None:
    """What a message says of a fact, None where it does not say."""
    match = _found(fact, message)
    return match[1].strip(" `") if match else None


def told_number(fact: str, message: str) -> int | None:
    """The number that a message gives for a fact, None where it gives none."""
    text = told(fact, message)
    return int(text) if text else None


def told_partitions(message: str) -> tuple[str, ...]:
    """The partitions that a message names, each as its writer wrote it."""
    text = told("partitions", message) or ""
    bracketed = re.findall(r"\[([^\]]+)\]", text)
    if bracketed:
        return tuple(bracketed)
    return tuple(part.strip().rstrip(".") for part in text.split(",") if part.strip())


def places(message: str, offset: int) -> Iterator[Place]:
    """Where the facts stand; `offset` is where the message starts in the text."""
    for fact in PATTERNS:
        if match := _found(fact, message):
            text = match[1].strip("[] `")
            start = offset + match.start(1) + match[1].index(text)
            yield Place(fact, start, start + len(text))


def stream_of(text: str) -> str | None:
    """The name of the streaming query that failed, "" where it has none; None: no stream is named."""
    named = [match[1] for match in _STREAM.finditer(text)]
    return next((name for name in named if name), "") if named else None


def _found(fact: str, message: str) -> re.Match[str] | None:
    matches = (re.search(pattern, message) for pattern in PATTERNS[fact])
    return next((match for match in matches if match), None)
