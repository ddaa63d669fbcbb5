"""Where row-level concurrency would apply: every runtime by every condition, as it is and once mended."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.conflicts.eligibility import RUNTIMES, Eligibility, Runtime, runtime_verdicts
from lakeui.conflicts.recent_writes import RecentWrites

HOLDS, FAILS, SOME, NOT_OFFERED = "holds", "fails", "some", "not offered"
LAYOUT, VECTORS, IDENTITY = "Layout", "Deletion vectors", "No identity column"
CONDITIONS, TARGETS = "Conditions", "MERGE names target rows"
_ALL = "UPDATE, DELETE, MERGE"
_NOTES = {
    "including MERGE without Photon": "with or without Photon",
    "MERGE needs Photon and an explicit predicate on the target": "MERGE: Photon only",
    "without Photon DELETE only": "no Photon: DELETE only",
}
_NEEDS_TARGET = "Databricks Runtime 14.2"


@dataclass(frozen=True, slots=True)
class RuntimeCell:
    """A condition on a runtime: `holds`, `fails`, `some` or `not offered`, in words too."""

    condition: str
    state: str
    text: str


@dataclass(frozen=True, slots=True)
class RuntimeColumn:
    """A runtime: its cells, its level of decision, and its commits here in 30 days.

    `by_rows` are the operations decided at row level; empty: at file level.
    """

    runtime: str
    limits: str
    cells: tuple[RuntimeCell, ...]
    takes_part: bool
    reason: str
    by_rows: str
    writes: int

    @property
    def short_name(self) -> str:
        """Its name for a narrow column: only the version of later Databricks runtimes."""
        short = self.runtime.replace("Databricks Runtime", "Databricks").replace(
            " (open source)", ""
        )
        return short[:1].upper() + short[1:] if short.startswith("this") else short

    @property
    def note(self) -> str:
        """Its other requirements, in few words."""
        if not self.limits:
            return "open source" if self.runtime.startswith("delta") else "Spark and Arrow"
        return _NOTES.get(self.limits, self.limits)


def runtime_columns(
    eligibility: Eligibility, writes: RecentWrites, *, clustered: bool
) -> tuple[RuntimeColumn, ...]:
    """Return every runtime of the engine's list, for a table with this eligibility."""
    wrote = Counter(write.client.runtime for write in writes.writes)
    verdicts = runtime_verdicts(eligibility, clustered=clustered)
    return tuple(
        RuntimeColumn(
            runtime=runtime.name,
            limits=runtime.limits,
            cells=tuple(_cells(runtime, eligibility, writes, clustered=clustered)),
            takes_part=verdict.takes_part,
            reason=verdict.reason,
            by_rows=_row_level_support(runtime) if verdict.takes_part else "",
            writes=wrote[runtime.name],
        )
        for runtime, verdict in zip(RUNTIMES, verdicts, strict=True)
    )


def meet_all_conditions(eligibility: Eligibility) -> Eligibility:
    """Return the eligibility with every condition met."""
    conditions = tuple(replace(condition, holds=True) for condition in eligibility.conditions)
    return replace(eligibility, conditions=conditions, traces_moves=True)


def other_writers(writes: RecentWrites) -> int:
    """Count commits by unnamed programs and by others than the runtimes."""
    names = {runtime.name for runtime in RUNTIMES}
    return sum(write.client.runtime not in names for write in writes.writes)


def _row_level_support(runtime: Runtime) -> str:
    if runtime.name == _NEEDS_TARGET:
        return f"{_ALL} with Photon and a literal"
    return f"{_ALL} with Photon" if "without Photon DELETE only" in runtime.limits else _ALL


def _cells(
    runtime: Runtime, eligibility: Eligibility, writes: RecentWrites, *, clustered: bool
) -> Iterator[RuntimeCell]:
    if not runtime.supported:
        for name in (LAYOUT, VECTORS, IDENTITY, CONDITIONS, TARGETS):
            yield RuntimeCell(name, NOT_OFFERED, NOT_OFFERED)
        return
    layout, supported, enabled, identity = (condition.holds for condition in eligibility.conditions)
    yield _layout(runtime, layout, clustered=clustered)
    yield _plain(VECTORS, supported and enabled)
    yield _plain(IDENTITY, identity)
    yield _conditions(writes)
    yield _targets(runtime, writes)


def _layout(runtime: Runtime, holds: bool, *, clustered: bool) -> RuntimeCell:
    if runtime.clustered_only and not clustered:
        if runtime.setting and holds:
            return RuntimeCell(LAYOUT, SOME, "with a setting")
        return RuntimeCell(LAYOUT, FAILS, "clustered only" if holds else FAILS)
    return _plain(LAYOUT, holds)


def _plain(name: str, holds: bool) -> RuntimeCell:
    state = HOLDS if holds else FAILS
    return RuntimeCell(name, state, state)


def _conditions(writes: RecentWrites) -> RuntimeCell:
    back = sum(use.times for use in writes.conditions if use.condition.obstacle)
    return (
        RuntimeCell(CONDITIONS, SOME, f"{back:,} fall back") if back else _plain(CONDITIONS, True)
    )


def _targets(runtime: Runtime, writes: RecentWrites) -> RuntimeCell:
    if runtime.name != _NEEDS_TARGET:
        return _plain(TARGETS, True)
    merges = [use for use in writes.conditions if use.operation == "MERGE"]
    bare = sum(use.times for use in merges if not use.condition.target_parts)
    return RuntimeCell(TARGETS, FAILS, f"{bare:,} join only") if bare else _plain(TARGETS, True)
