"""The overlap of two writes: the files of both sides, and the rows of the first shared file."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from engine.conflict_facts import Decision, SharedFile, SideFile
from lakeui.catalog.units import format_count
from lakeui.pages.file_names import file_head

_LABELS_APART = 14.0  # per cent: keeps labels under a strip apart
_CHARACTER_PX = 7.4
_NARROW_PX, _USUAL_PX = 270.0, 640.0  # of a strip on a telephone, and in the narrowest other window
_GAP = 2.0
_NEAR_EDGE = 24.0
_BEAM, _EDGE = 0.25, 1.0
_NEW = "added"  # by the aborted write: never in the table, so the winning commit cannot have touched it


@dataclass(frozen=True, slots=True)
class OverlapTick:
    x: float
    title: str


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A place of both sides: a cross if they conflict, `is_open` if nothing decided.

    Elsewhere the two passed.
    """

    x: float
    title: str
    is_conflict: bool
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class StripLabel:
    """Text under a strip; its anchor keeps it inside. `spare` is the class that hides it."""

    x: float
    text: str
    anchor: str
    spare: str = ""

    def span(self, width_px: float) -> tuple[float, float]:
        """Return its extent on a strip of that width, in per cent."""
        wide = len(self.text) * 100 * _CHARACTER_PX / width_px
        start = {"start": self.x, "end": self.x - wide}.get(self.anchor, self.x - wide / 2)
        return start, start + wide


@dataclass(frozen=True, slots=True)
class OverlapStrip:
    """This write's ticks above, the winning commit's below, both sides' on the line."""

    above: tuple[OverlapTick, ...]
    below: tuple[OverlapTick, ...]
    base: tuple[float, ...]
    joints: tuple[SharedPlace, ...]
    labels: tuple[StripLabel, ...]
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file of either side, for the table twin."""

    path: str
    here: str
    there: str
    low: str | None
    high: str | None
    rows_here: int | None
    rows_there: int | None
    shared: SharedFile | None


@dataclass(frozen=True, slots=True)
class OverlapChart:
    """A chart; `beam` leads from the first shared file, in per cent, to its rows, None without any.

    The counts are of each side's files, including those not listed, and of the listed files of
    both.
    """

    files: OverlapStrip | None
    rows: OverlapStrip | None
    file: SharedFile | None
    beam: tuple[float, float] | None
    lines: tuple[FileLine, ...]
    here_count: int
    there_count: int
    shared_count: int

    @property
    def has_open(self) -> bool:
        """Whether of a file of both nothing was decided."""
        return self.files is not None and any(joint.is_open for joint in self.files.joints)

    @property
    def has_passed(self) -> bool:
        """Whether the two passed in a file of both; also true without one."""
        joints = self.files.joints if self.files else ()
        passed = [joint for joint in joints if not (joint.is_open or joint.is_conflict)]
        return bool(passed) or not self.has_open

    @property
    def is_sampled(self) -> bool:
        """Whether a side has more rows than are drawn."""
        if self.rows is None or self.file is None:
            return False
        file = self.file
        return file.current_count > len(file.current_rows) or file.winner_count > len(
            file.winner_rows
        )


def draw_overlap(
    decision: Decision, fired_at: Iterable[str], *, is_resolved: bool = False
) -> OverlapChart | None:
    """Draw the chart; `fired_at` are the paths of the rule. Return None if no file was recorded.

    In a resolved conflict every shared file passed; in another those whose compared rows have none
    in common.
    """
    lines = _lines(decision)
    if not lines:
        return None
    conflicting = _find_conflicting_files(decision, set(fired_at))
    place = _places(lines)
    first = first_shared(decision.shared_files)
    passed = {file.path for file in decision.shared_files if not file.common_count}
    both = [line for line in lines if line.here and line.there]
    passed |= {line.path for line in both if is_resolved}
    ours, theirs = decision.current_changes, decision.winner_changes
    return OverlapChart(
        files=_file_strip(lines, place, conflicting, passed),
        rows=_row_strip(first) if first and first.current_rows + first.winner_rows else None,
        file=first,
        beam=_beam(place.get(first.path)) if first else None,
        lines=tuple(lines),
        here_count=max(ours.files_changed, sum(bool(line.here) for line in lines)),
        there_count=max(
            theirs.files_changed + theirs.files_added, sum(bool(line.there) for line in lines)
        ),
        shared_count=len(both),
    )


def first_shared(files: Sequence[SharedFile]) -> SharedFile | None:
    """Return the first file with rows of both, or else the first compared one."""
    return next((file for file in files if file.common_count), files[0] if files else None)


def _places(lines: Sequence[FileLine]) -> dict[str, float]:
    """Per cent of the strip: by value where every file has a number or a date, else one by one."""
    values = [_parse_measure(line.low) for line in lines]
    present = [value for value in values if value is not None]
    low, span = min(present, default=0.0), max(present, default=0.0) - min(present, default=0.0)
    if len(present) < len(lines) or not span:
        return {line.path: 100 * (n + 0.5) / len(lines) for n, line in enumerate(lines)}
    return {
        line.path: _EDGE + (100 - 2 * _EDGE) * (value - low) / span
        for line, value in zip(lines, present, strict=True)
    }


def _parse_measure(text: str | None) -> float | None:
    """Parse a number, or a day or time as seconds; None for other texts."""
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _lines(decision: Decision) -> list[FileLine]:
    ours = {file.path: file for file in decision.current_files if file.did != _NEW}
    theirs = {file.path: file for file in decision.winner_files}
    compared = {file.path: file for file in decision.shared_files}
    lines = [
        _line(path, ours.get(path), theirs.get(path), compared.get(path))
        for path in dict.fromkeys([*ours, *theirs])
    ]
    return sorted(lines, key=_line_sort_key)


def _line(
    path: str, ours: SideFile | None, theirs: SideFile | None, shared: SharedFile | None
) -> FileLine:
    side = ours if ours is not None and ours.low is not None else theirs or ours
    return FileLine(
        path=path,
        here=ours.did if ours else "",
        there=theirs.did if theirs else "",
        low=side.low if side else None,
        high=side.high if side else None,
        rows_here=shared.current_count if shared else ours.row_count if ours else None,
        rows_there=shared.winner_count if shared else theirs.row_count if theirs else None,
        shared=shared,
    )


def _find_conflicting_files(decision: Decision, fired_at: set[str]) -> set[str]:
    compared = {file.path for file in decision.shared_files if file.common_count}
    return compared or fired_at


def _file_strip(
    lines: Sequence[FileLine], place: dict[str, float], conflicting: set[str], passed: set[str]
) -> OverlapStrip:
    joints = [
        _joint(line, place[line.path], conflicting, passed)
        for line in lines
        if line.here and line.there
    ]
    labels = _file_labels(lines, place, conflicting, passed)
    bounded = [line for line in lines if line.low is not None]
    return OverlapStrip(
        above=tuple(_tick(place, line, line.here, line.rows_here) for line in lines if line.here),
        below=tuple(
            _tick(place, line, line.there, line.rows_there) for line in lines if line.there
        ),
        base=(),
        joints=tuple(sorted(joints, key=lambda joint: joint.is_conflict)),
        labels=labels,
        first=bounded[0].low or "" if bounded else "",
        last=max((line.high or "" for line in bounded), default="", key=_value),
    )


def _file_labels(
    lines: Sequence[FileLine], place: dict[str, float], conflicting: set[str], passed: set[str]
) -> tuple[StripLabel, ...]:
    """Label conflicting files; label passed ones if there is room beside them."""
    both = [line.path for line in lines if line.here and line.there]
    labeled = _place_labels(
        ((place[p], file_head(p)) for p in both if p in conflicting), _summarize_texts
    )
    others = _place_labels(
        ((place[p], f"{file_head(p)}, passed") for p in both if p in passed - conflicting),
        _summarize_texts,
    )
    room = [label for label in others if not any(_touch(label, other) for other in labeled)]
    return (*labeled, *room)


def _touch(one: StripLabel, other: StripLabel) -> bool:
    """Whether two labels would overlap if both were shown."""
    (start, end), (begin, until) = one.span(_USUAL_PX), other.span(_USUAL_PX)
    return start < until + _GAP and begin < end + _GAP


def _row_strip(file: SharedFile) -> OverlapStrip:
    drawn = (*file.current_rows, *file.winner_rows, *file.gone_before_rows, *file.common_rows)
    count = max(file.file_row_count or 0, max(drawn, default=0) + 1)

    def center_of(row: int) -> float:
        return 100 * (row + 0.5) / count

    labels = _place_labels(
        ((center_of(row), format_count(row)) for row in file.common_rows), _join_ends
    )
    common = [
        SharedPlace(center_of(row), f"row {format_count(row)}, both", True)
        for row in file.common_rows
    ]
    return OverlapStrip(
        above=tuple(
            OverlapTick(center_of(row), f"row {format_count(row)}") for row in file.current_rows
        ),
        below=tuple(
            OverlapTick(center_of(row), f"row {format_count(row)}") for row in file.winner_rows
        ),
        base=tuple(center_of(row) for row in file.gone_before_rows),
        joints=tuple(_apart(common)),
        labels=labels,
        first="" if any(label.x < _LABELS_APART for label in labels) else "row 0",
        last=""
        if any(label.x > 100 - _LABELS_APART for label in labels)
        else format_count(count - 1),
    )


def _apart(joints: Iterable[SharedPlace]) -> Iterable[SharedPlace]:
    """Yield the first of crosses that would overlap."""
    last = -1.0
    for joint in joints:
        if joint.x - last >= 1.0:
            yield joint
            last = joint.x


def _place_labels(
    places: Iterable[tuple[float, str]], joined: Callable[[Sequence[str]], str]
) -> tuple[StripLabel, ...]:
    """Place labels that do not touch; close ones are joined."""
    labels: list[tuple[float, list[str]]] = []
    for x, text in places:
        if labels and x - labels[-1][0] < _LABELS_APART:
            labels[-1][1].append(text)
        else:
            labels.append((x, [text]))
    return _hide_crowded_labels([StripLabel(x, joined(texts), _anchor(x)) for x, texts in labels])


def _hide_crowded_labels(labels: Sequence[StripLabel]) -> tuple[StripLabel, ...]:
    """Hide labels that would overlap the one before them in narrow windows."""
    ends = dict.fromkeys((_NARROW_PX, _USUAL_PX), -_GAP)
    drawn = []
    for label in labels:
        hidden = set()
        for width in ends:
            start, end = label.span(width)
            if start < ends[width] + _GAP:
                hidden.add(width)
            else:
                ends[width] = end
        spare = "spare-wide" if _USUAL_PX in hidden else "spare" if hidden else ""
        drawn.append(replace(label, spare=spare))
    return tuple(drawn)


def _summarize_texts(texts: Sequence[str]) -> str:
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{len(texts)} of {texts[0]}"
    return " and ".join(texts) if len(texts) <= 2 else f"{texts[0]} and {len(texts) - 1} more"


def _join_ends(texts: Sequence[str]) -> str:
    return " and ".join(texts) if len(texts) <= 2 else f"{texts[0]} to {texts[-1]}"


def _anchor(x: float) -> str:
    return "start" if x < _NEAR_EDGE else "end" if x > 100 - _NEAR_EDGE else "middle"


def _tick(place: dict[str, float], line: FileLine, did: str, rows: int | None) -> OverlapTick:
    counted = "" if rows is None else f", {format_count(rows)} rows"
    return OverlapTick(place[line.path], f"{file_head(line.path)}: {did}{counted}{_bounds(line)}")


def _joint(line: FileLine, x: float, conflicting: set[str], passed: set[str]) -> SharedPlace:
    is_conflict = line.path in conflicting
    is_open = not is_conflict and line.path not in passed
    how = "both" if is_conflict else "both, not reached" if is_open else "both, no rows in common"
    title = f"{file_head(line.path)}: {how}{_bounds(line)}"
    return SharedPlace(x, title, is_conflict, is_open)


def _bounds(line: FileLine) -> str:
    if line.low is None:
        return ""
    return f", {line.low}" if line.low == line.high else f", {line.low} to {line.high}"


def _beam(x: float | None) -> tuple[float, float] | None:
    return None if x is None else (max(0.0, x - _BEAM), min(100.0, x + _BEAM))


def _line_sort_key(line: FileLine) -> tuple[bool, tuple[bool, float, str], str]:
    return line.low is None, _value(line.low or ""), line.path


def _value(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), ""
    except ValueError:
        return True, 0.0, text
