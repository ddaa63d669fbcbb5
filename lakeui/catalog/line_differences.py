"""Differences between two lists of lines, each about a subject: columns, properties.

A line's subject is its first word under the subjects it is indented below; a changed line appears
as its old form followed by its new one. The time is n log n, even for schemas of 50,000 columns
without a line in common.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

_AROUND = 2  # unchanged lines shown beside a changed one
_WHOLE = 200  # a section up to this length is shown whole
MAX_LINES = 400
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line; `sign` is "+", "-" or, if unchanged, a space; "…" stands for omitted lines."""

    sign: str
    text: str

    @property
    def css(self) -> str:
        return {"+": "add", "-": "del"}.get(self.sign, "")


@dataclass(frozen=True)
class DiffSection:
    """The lines of one name, unchanged ones included."""

    name: str
    lines: tuple[DiffLine, ...]

    @cached_property
    def changed(self) -> bool:
        return any(line.sign != " " for line in self.lines)

    @cached_property
    def near(self) -> tuple[DiffLine, ...]:
        """The changed lines and a few beside them, up to a cap; "…" lines describe omitted ones."""
        changed = [place for place, line in enumerate(self.lines) if line.sign != " "]
        around = range(-_AROUND, _AROUND + 1)
        kept = {place + by for place in changed[:MAX_LINES] for by in around}
        return tuple(
            _insert_gaps(
                self.lines,
                sorted(place for place in kept if 0 <= place < len(self.lines)),
                more=len(changed) - len(changed[:MAX_LINES]),
            )
        )

    @property
    def shown(self) -> tuple[DiffLine, ...]:
        """All lines of a short section, those near a change of a long one."""
        return self.lines if len(self.lines) <= _WHOLE else self.near


def section(name: str, before: Sequence[str], after: Sequence[str]) -> DiffSection:
    """Compare two lists of lines."""
    return DiffSection(name, tuple(_compare_lines(before, after)))


def subject(text: str) -> str:
    """Return a line's subject: its first word."""
    return text.strip().partition(" ")[0]


def _compare_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    places = {key: place for place, key in enumerate(_keys(before))}
    common = [(places[key], place) for place, key in enumerate(_keys(after)) if key in places]
    old = new = 0
    for here, there in (*_longest_rising_run(common), (len(before), len(after))):
        yield from _pair_replaced_lines(before[old:here], after[new:there])
        if here < len(before):
            yield DiffLine(" ", before[here])
        old, new = here + 1, there + 1


def _keys(lines: Sequence[str]) -> Iterator[Key]:
    """Return each line with its surrounding subjects and earlier occurrences: unique keys."""
    around: list[tuple[int, str]] = []
    seen: Counter[Key] = Counter()
    for text in lines:
        indent = len(text) - len(text.lstrip())
        while around and around[-1][0] >= indent:
            around.pop()
        key = (*(name for _, name in around), text)
        seen[key] += 1
        yield (*key, str(seen[key]))
        around.append((indent, subject(text)))


def _longest_rising_run(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs in which both numbers rise; the second ones rise already."""
    lowest: list[int] = []  # the least last number of a run of each length
    last: list[int] = []  # and the pair it ends with
    before: list[int] = []
    for place, (number, _) in enumerate(pairs):
        length = bisect_left(lowest, number)
        before.append(last[length - 1] if length else -1)
        lowest[length : length + 1] = [number]
        last[length : length + 1] = [place]
    common: list[tuple[int, int]] = []
    place = last[-1] if last else -1
    while place >= 0:
        common.append(pairs[place])
        place = before[place]
    return common[::-1]


def _pair_replaced_lines(gone: Sequence[str], came: Sequence[str]) -> Iterator[DiffLine]:
    """Yield lines between two unchanged ones: removed lines, then new forms after old ones."""
    renewed = {subject(text) for text in came}
    old: dict[str, list[str]] = {}
    for text in gone:
        if subject(text) in renewed:
            old.setdefault(subject(text), []).append(text)
        else:
            yield DiffLine("-", text)
    for text in came:
        yield from (DiffLine("-", line) for line in old.pop(subject(text), ()))
        yield DiffLine("+", text)


def _insert_gaps(lines: Sequence[DiffLine], kept: Sequence[int], more: int) -> Iterator[DiffLine]:
    """Return the lines at `kept` indexes, with gaps for omitted lines.

    `more` changed lines follow the last of them.
    """
    before = -1
    for place in kept:
        if place > before + 1:
            yield DiffLine("…", f"{place - before - 1:,} unchanged")
        yield lines[place]
        before = place
    if more:
        yield DiffLine("…", f"{more:,} more changed")
    elif kept and kept[-1] < len(lines) - 1:
        yield DiffLine("…", f"{len(lines) - 1 - kept[-1]:,} unchanged")
