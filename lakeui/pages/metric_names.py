"""Metrics as Delta names them, in words with units. What is not known is split at its capitals."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakeui.pages.units import format_bytes, format_count, format_duration

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_FIRST = (
    "numSourceRows",
    "numOutputRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numUpdatedRows",
    "numTargetRowsDeleted",
    "numDeletedRows",
    "numCopiedRows",
    "numTargetRowsCopied",
)
_NAMES = {
    "numSourceRows": "Source rows",
    "numOutputRows": "Rows written",
    "numTargetRowsInserted": "Inserted",
    "numTargetRowsUpdated": "Matched, updated",
    "numTargetRowsMatchedUpdated": "Updated where matched",
    "numTargetRowsNotMatchedBySourceUpdated": "Updated where the source has none",
    "numTargetRowsDeleted": "Deleted",
    "numTargetRowsMatchedDeleted": "Deleted where matched",
    "numTargetRowsNotMatchedBySourceDeleted": "Deleted where the source has none",
    "numTargetRowsCopied": "Rows copied along",
    "numUpdatedRows": "Updated",
    "numDeletedRows": "Deleted",
    "numCopiedRows": "Rows copied along",
    "numTargetFilesAdded": "Files added",
    "numTargetFilesRemoved": "Files removed",
    "numTargetBytesAdded": "Bytes added",
    "numTargetBytesRemoved": "Bytes removed",
    "numTargetChangeFilesAdded": "Change files added",
    "numAddedChangeFiles": "Change files added",
    "numDroppedRows": "Rows dropped",
    "executionTimeMs": "Took",
    "scanTimeMs": "Finding rows took",
    "rewriteTimeMs": "Writing took",
    "materializeSourceTimeMs": "Reading the source took",
    "sizeOfDataToDelete": "Size to delete",
    "numFilesToDelete": "Files to delete",
    "numVacuumedDirectories": "Folders looked at",
}
_BYTES = ("bytes", "size", "totalsize", "sizeofdatatodelete")


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is what the log calls it."""

    name: str
    label: str
    value: str
    exact: str


def readable_metrics(metrics: object) -> list[Metric]:
    """What changed rows first; counts of nothing are left to the JSON."""
    if not isinstance(metrics, Mapping):
        return []
    return sorted(_readable(metrics), key=_place)


def label_of(name: str) -> str:
    """A metric's name in words."""
    if name in _NAMES:
        return _NAMES[name]
    words = [word.lower() for word in _WORD.findall(name)]
    words = [word for word in words if word not in {"num", "target", "ms"}]
    return " ".join(words).capitalize() or name


def _readable(metrics: Mapping[str, object]) -> Iterator[Metric]:
    for name, value in metrics.items():
        text = str(value)
        if text in {"0", "", "None", "null"}:
            continue
        yield Metric(name, label_of(name), _shown(name, text), text)


def _shown(name: str, text: str) -> str:
    if not text.lstrip("-").isdecimal():
        return text
    number, plain = int(text), name.lower()
    if plain.endswith(("timems", "ms")):
        return format_duration(number)
    if (
        any(plain.endswith(each) or plain.startswith("bytes") for each in _BYTES)
        or "bytes" in plain
    ):
        return format_bytes(number)
    return format_count(number)


def _place(metric: Metric) -> tuple[int, bool, str]:
    known = _FIRST.index(metric.name) if metric.name in _FIRST else len(_FIRST)
    return known, metric.name.lower().endswith("ms"), metric.label
