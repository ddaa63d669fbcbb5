"""A swim-lane's address: the versions, the transactions, the drawing."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest

from lakeui.catalog.models import Table
from lakeui.conflicts.lanes.narrowing import LaneFilter, LaneOutcome
from lakeui.conflicts.version_effects import conflicts_of

SPANS = (15, 30, 60, 120)
SUMMED_SPANS = (600, 3000)  # too many to draw one by one
ALL_SPANS = (*SPANS, *SUMMED_SPANS)
_USUAL_SPAN = 30
_LONGEST = 300
_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Window:
    """The versions shown, and the ones beside them."""

    first: int
    last: int
    span: int
    earlier_last: int | None
    later_last: int | None

    @property
    def is_summed(self) -> bool:
        return self.span in SUMMED_SPANS

    @property
    def is_latest(self) -> bool:
        return self.later_last is None


def window_of(request: HttpRequest, table: Table) -> Window:
    """Return the requested window, within the mirrored versions.

    Raises:
        Http404: it is no number, or not an offered span.
    """
    latest, earliest = table.version or 0, table.earliest_version or 0
    span = _number(request, "span", _USUAL_SPAN)
    if span not in ALL_SPANS:
        msg = "Unknown number of versions."
        raise Http404(msg)
    last = min(_number(request, "last", latest), latest)
    first = max(last - span + 1, earliest, 0)
    return Window(
        first,
        last,
        span,
        first - 1 if first > earliest else None,
        min(last + span, latest) if last < latest else None,
    )


def elsewhere(request: HttpRequest, table: Table, window: Window) -> str | None:
    """Return the address around a picked transaction before the latest versions.

    Its end is then two thirds across. None if the window holds it, or the address names a window.
    """
    key = request.GET.get("pick", "")
    kind, number = key[:1], key[1:].removeprefix("-")
    is_number = number.isascii() and number.isdigit() and len(number) < _DIGITS
    if "last" in request.GET or not is_number:
        return None
    version: int | None = int(number) if kind == "v" else None
    if kind == "c":
        winning_versions = (
            conflicts_of(table).filter(pk=int(number)).values_list("winning_version", flat=True)
        )
        version = winning_versions.first()
    if version is None or version >= window.first:
        return None
    return f"{prefix(request, 'last', ())}{version + window.span // 3}"


def filter_of(request: HttpRequest) -> LaneFilter:
    """Return the requested filter; raise `Http404` if there is no such outcome."""
    outcome = request.GET.get("outcome", "")
    if outcome and outcome not in list(LaneOutcome):
        msg = "Unknown outcome."
        raise Http404(msg)
    writer, operation, partition = (
        request.GET.get(name, "").strip()[:_LONGEST]
        for name in ("writer", "operation", "partition")
    )
    return LaneFilter(outcome, writer, operation, partition)


def prefix(request: HttpRequest, name: str, without: tuple[str, ...], **given: object) -> str:
    """Return this address up to the value of one parameter: many links differ in it alone."""
    query = request.GET.copy()
    for key in (*without, name, *given):
        query.pop(key, None)
    query.update({key: str(value) for key, value in given.items()})
    return f"?{query.urlencode()}&{name}=" if query else f"?{name}="


def _number(request: HttpRequest, name: str, preset: int) -> int:
    text = request.GET.get(name, "")
    if not text:
        return preset
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS):
        msg = f"{name} is not a number."
        raise Http404(msg)
    return int(text)
