"""The engine's facts of a conflict, as sent by a program: read back into values, or refused.

Anyone with a token may send anything, so facts that the engine could not have recorded are refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import msgspec

from engine.conflict_facts import Decision, Rule
from engine.conflicts.checker import CHECKS
from engine.errors import ConflictError, ConflictFacts, ConflictSide, RequestError

MAX_NUMBER = 2**53
MAX_ITEMS = 2_000
"""Of one list; the engine's own are shorter."""
_T = TypeVar("_T")
_ERRORS = {check.error.__name__: check.error for check in CHECKS}


@dataclass(frozen=True, slots=True)
class ResolvedFacts:
    """The engine's facts of a conflict resolved at row level, and of this transaction."""

    winner: ConflictSide
    rule: Rule
    files: tuple[str, ...]
    row_count: int
    how: str
    duration_ms: int
    current: ConflictSide
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    decision: Decision | None = None


def read_aborted(exception: str, said: Any) -> ConflictError:  # noqa: ANN401 - JSON
    """Return the error of an aborted write, as the engine raised it.

    Raises:
        RequestError: the engine raises no such error, or not with such facts.
    """
    kind = _ERRORS.get(exception)
    if kind is None:
        what = f"The engine has no conflict {exception[:100]!r}."
        remedy = f"Use one of {', '.join(sorted(_ERRORS))}."
        raise RequestError(what, remedy, field="exception")
    facts = _read(said, ConflictFacts)
    _check_sides(facts.current, facts.winner, facts.read_version)
    if facts.rule not in {check.rule for check in CHECKS if check.error is kind}:
        what = f"The rule {facts.rule} does not raise {exception}."
        raise RequestError(what, _AS_RECORDED, field="conflict.rule")
    return kind(facts)


def read_resolved(said: Any) -> ResolvedFacts:  # noqa: ANN401 - JSON
    """Return a conflict resolved at row level.

    Raises:
        RequestError: the engine does not record such a conflict.
    """
    facts = _read(said, ResolvedFacts)
    _check_sides(facts.current, facts.winner, facts.current.read_version)
    return facts


_AS_RECORDED = "Send what the engine recorded, unchanged."


def _read(said: Any, model: type[_T]) -> _T:  # noqa: ANN401 - JSON
    try:
        facts = msgspec.convert(said, model)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        where = f"conflict{place.rstrip('`')}"
        msg = f"{what}."
        raise RequestError(msg, _AS_RECORDED, field=where) from None
    for place, what in _faults(said, asdict(facts), "conflict"):  # type: ignore[call-overload]
        raise RequestError(what, _AS_RECORDED, field=place)
    return facts


def _faults(said: Any, allowed: Any, place: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
    """Yield unknown names, and numbers beyond a database's range."""
    if isinstance(said, Mapping) and isinstance(allowed, Mapping):
        for name in said:
            if name not in allowed:
                yield f"{place}.{name[:100]}", "There is no such field here."
            else:
                yield from _faults(said[name], allowed[name], f"{place}.{name[:100]}")
    elif isinstance(said, list) and isinstance(allowed, list | tuple):
        if len(said) > MAX_ITEMS:
            yield place, f"The list has {len(said):,} items; up to {MAX_ITEMS:,} are kept."
        for number, (inner, also) in enumerate(zip(said, allowed, strict=False)):
            yield from _faults(inner, also, f"{place}[{number}]")
    elif isinstance(said, int) and not -MAX_NUMBER <= said <= MAX_NUMBER:
        yield place, "The number has more than 53 bits."


def _check_sides(current: ConflictSide, winner: ConflictSide, read_version: int | None) -> None:
    version = winner.version
    if version is None or not 0 <= version <= MAX_NUMBER:
        what = "The version of the winning commit is not valid."
        raise RequestError(what, _AS_RECORDED, field="conflict.winner.version")
    if read_version is None or not -1 <= read_version < version:
        what = f"A write that read version {read_version} does not overlap with version {version}."
        raise RequestError(what, _AS_RECORDED, field="conflict.read_version")
    if current.read_version != read_version or current.version is not None:
        what = "The current side is not the write that was checked."
        raise RequestError(what, _AS_RECORDED, field="conflict.current")
