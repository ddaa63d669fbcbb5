"""A swim-lane transaction's change and the end of its overlaps, in a few words.

Only recorded facts are stated; otherwise the words are "".
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.conflict_facts import Rule
from engine.vocabulary import Family, operation_named
from engine.words import count_noun
from lakeui.catalog.models import Commit
from lakeui.catalog.row_counts import rows_of
from lakeui.conflicts.models import Conflict

_CHANGED = {
    Rule.METADATA_CHANGED: "metadata changed",
    Rule.PROTOCOL_CHANGED: "protocol changed",
}
_SHORT_NAMES = {
    "delta.deletedFileRetentionDuration": "retention",
    "delta.logRetentionDuration": "log retention",
    "delta.isolationLevel": "level",
    "delta.enableDeletionVectors": "deletion vectors",
    "delta.enableRowTracking": "row tracking",
    "delta.enableChangeDataFeed": "change data feed",
}
_AMOUNT = re.compile(r"^(?:interval )?(\d+) (\w+)$")
_ENGINES = (
    (re.compile(r"Databricks-Runtime/(\d+\.\d+)"), "Databricks"),
    (re.compile(r"Delta-Lake/(\d+\.\d+)"), "delta-spark"),
    (re.compile(r"delta-rs:(?:py-)?(\d+\.\d+)"), "delta-rs"),
    (re.compile(r"[Kk]ernel\S*?[/:-](\d+\.\d+)"), "Delta Kernel"),
)
Properties = Mapping[str, str]


def did(commit: Commit, before: Properties) -> str:
    """Describe a change: 47 k rows, 118 → 12 files, retention 7 → 14 days. `before`: properties."""
    family = operation_named(commit.operation).family
    if family is Family.META:
        return _set(properties_of(commit.operation_parameters), before)
    if family is Family.OPTIMIZE and (commit.files_added or commit.files_removed):
        return f"{commit.files_removed:,} → {commit.files_added:,} files"
    rows = rows_of(commit)
    touched = sum(n for n in (rows.inserted, rows.updated, rows.deleted) if n)
    return f"{short(touched)} {'row' if touched == 1 else 'rows'}" if touched else ""


def overlap_place(conflict: Conflict) -> str:
    """Describe the data touched by both sides: 3 rows in 1 file, 17 new rows match, and so on."""
    rows, files, rule = conflict.row_count, conflict.file_count, conflict.decided_by
    if rule in _CHANGED:
        return _CHANGED[rule]
    if rows and rule is Rule.DATA_ADDED:
        new_rows = conflict.rows_text.replace(" row", " new row")
        return f"{new_rows} {'matches' if rows == 1 else 'match'}"
    where = count_noun(files, "new file" if rule is Rule.DATA_ADDED else "file")
    if rows:
        return f"{conflict.rows_text} in {where}" if files else conflict.rows_text
    return where if files else ""


def why_aborted(conflict: Conflict) -> str:
    """ConcurrentDeleteReadException: 3 rows in 1 file."""
    parts = (conflict.exception, overlap_place(conflict) or conflict.rule.replace("_", " "))
    return ": ".join(part for part in parts if part)


def describe_resolution(conflict: Conflict, how: str) -> str:
    """v4807: row map, 2,377 rows."""
    rows = conflict.row_count
    rows_text = count_noun(rows, "row") if rows and f"{rows:,}" not in how else ""
    words = ", ".join(part for part in (how or "resolved at row level", rows_text) if part)
    return f"v{conflict.winning_version}: {words}"


def would_overlap(latest: int, overlap_count: int | None, exempt: int | None) -> str:
    """Describe the result of a running transaction if it committed now."""
    if not overlap_count:
        return f"if it committed now: v{latest + 1}, no overlap so far"
    if exempt == overlap_count:
        return f"if it committed now: v{latest + 1}, nothing to resolve"
    open_ones = overlap_count - (exempt or 0)
    return f"{count_noun(open_ones, 'version')} to be checked when it commits"


def properties_of(parameters: object) -> Properties:
    """Return the properties of a SET TBLPROPERTIES; some engines write them as a JSON text."""
    said: Any = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return {}
    return {str(k): str(v) for k, v in said.items()} if isinstance(said, Mapping) else {}


def engine_name(engine_info: str) -> str:
    """Return an engine's common name: this engine, delta-spark 4.0; an unknown one as written."""
    if engine_info.startswith("lakeui"):
        return "this engine"
    for pattern, name in _ENGINES:
        match = pattern.search(engine_info)
        if match:
            return f"{name} {match[1]}"
    return engine_info


def short(number: int) -> str:
    """Shorten a number: 1,871, 47 k, 1.18 M."""
    if number < 10_000:
        return f"{number:,}"
    if number < 1_000_000:
        return f"{number / 1000:.0f} k"
    return f"{number / 1_000_000:.3g} M" if number < 1_000_000_000 else f"{number / 10**9:,.3g} G"


def _set(properties: Properties, before: Properties) -> str:
    if not properties:
        return ""
    name, value = next(iter(properties.items()))
    more = f", {len(properties) - 1} more" if len(properties) > 1 else ""
    return f"{_SHORT_NAMES.get(name, name)} {_describe_change(before.get(name), value)}{more}"


def _describe_change(old: str | None, new: str) -> str:
    was, now = (_AMOUNT.match(text or "") for text in (old, new))
    if was and now and was[2] == now[2]:
        return f"{was[1]} → {now[1]} {now[2]}"
    shown = new.removeprefix("interval ")
    return shown if old is None or old == new else f"{old.removeprefix('interval ')} → {shown}"
