"""Positions of bars' labels: above the bar, beside its end, or none. They never overlap.

A chart is drawn in per cent and shown at any width, so room is computed for its narrowest width; a
label that only fits on a wide screen is shown only there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_CHARACTER = 6.1  # px, at 11 px of the widest of the usual fonts
_GAP, _BESIDE = 6.0, 11.0
_ON_WIDE = 1_300


@dataclass(frozen=True, slots=True)
class BarLabel:
    """`place`: above (from the start), before (up to the end, above it) or beside the end.

    `is_spare`: there is room for it on a wide screen only.
    """

    text: str
    x: float
    place: str
    is_spare: bool


def labels_for(bars: Sequence[tuple[float, float, str]], width: int) -> list[BarLabel | None]:
    """Place labels for one track's bars (start, end, text), left to right, at a width in px."""
    labels: list[BarLabel | None] = []
    taken = 0.0  # up to where the track's room is used
    for place, (start, end, text) in enumerate(bars):
        until = bars[place + 1][0] if place + 1 < len(bars) else 100.0
        label = _fit_label(start, end, text, (taken, until), width) if text else None
        labels.append(label)
        taken = max(end, _end_of(label, width)) if label else end
    return labels


def _fit_label(
    start: float, end: float, text: str, room: tuple[float, float], width: int
) -> BarLabel | None:
    for reckoned in (width, max(width, _ON_WIDE)):
        place = _place(start, end, _length(text, reckoned), room, reckoned)
        if place is not None:
            x = start if place == "above" else end
            return BarLabel(text, x, place, is_spare=reckoned > width)
    return None


def _place(
    start: float, end: float, length: float, room: tuple[float, float], width: int
) -> str | None:
    taken, until = room
    gap, beside = _GAP * 100 / width, _BESIDE * 100 / width
    is_free, fits = start >= taken, start + length + gap <= until
    if is_free and fits and length <= end - start:
        return "above"
    if end + beside + length + gap <= until:
        return "beside"
    if is_free and fits:
        return "above"
    return "before" if end - length - 3 * gap >= taken else None


def _end_of(label: BarLabel, width: int) -> float:
    length = _length(label.text, max(width, _ON_WIDE) if label.is_spare else width)
    return label.x + (0 if label.place == "before" else length + _BESIDE * 100 / width)


def _length(text: str, width: int) -> float:
    """Return a label's length, in per cent of the chart."""
    return len(text) * _CHARACTER * 100 / width
