"""The effects of other isolation settings on a table, before they are made.

The last 30 days tell how many writes more or fewer would be aborted. Beside them stand the running
jobs, streams and clients that the change affects, and whether it can be undone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce
from django.utils import timezone

from engine.actions.table import Protocol
from engine.conflict_facts import Rule, Verdict
from engine.conflicts.candidates import counts_appends
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.forecast import ForecastSide
from engine.conflicts.predict.record_replay import (
    Judgement,
    RecordedConflict,
    ReplaySetting,
    judge_conflict,
    judge_replay,
)
from engine.protocol.features import FEATURES, WRITER_FEATURES_VERSION, list_supported_features
from engine.schema.column_mapping import MODE_KEY
from engine.vocabulary import UNKNOWN, operation_named
from lakeui.catalog.definitions import DiffSection
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import level_of, protocol_of, replay_setting
from lakeui.conflicts.isolation.overlaps import DEFAULT_DAYS, Overlaps
from lakeui.conflicts.isolation.pairs import ObservedPair
from lakeui.conflicts.isolation.reordering import OutOfOrderVersion, OutOfOrderVersions
from lakeui.conflicts.isolation.settings import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    Proposal,
    eligible_under,
    list_needed_features,
    preview_commits,
    proposal_of,
    protocol_under,
    render_undo_statements,
)
from lakeui.conflicts.models import Conflict, rule_named
from lakeui.conflicts.statements.text import DELETE, INSERT, MERGE, UPDATE, statement_kind
from lakeui.conflicts.version_effects import conflicts_of
from lakeui.jobs.writers import active_writers

_WRITE = Coalesce("job__committed_version", "attempted_version", -F("pk"))
"""The write of a resolved conflict: the version it became, where recorded, else its own number."""

STREAMS_DAYS = 7
MAX_STREAMS = 10
PROMISES: Mapping[str, str] = {
    IsolationLevel.WRITE_SERIALIZABLE: (
        "Writes are serializable. A blind append may be ordered after a write that did not "
        "see it, so by itself it aborts no UPDATE, DELETE or MERGE. After another such write "
        "may have read the appended rows, a write that did not see them is aborted. Let at "
        "most one of these writers read new data."
    ),
    IsolationLevel.SERIALIZABLE: (
        "Writes take effect in the order of the history. An append that a write should have "
        "read aborts that write. Use this level for tables whose history must explain each "
        "version. It only adds conflicts."
    ),
}
_UNSET = {LEVEL: str(IsolationLevel.WRITE_SERIALIZABLE), VECTORS: "false", ROW_TRACKING: "false"}
_CLIENTS = {
    "deletionVectors": "such as delta-spark before 2.3 and Databricks Runtime before 12.2 LTS",
    "rowTracking": "such as delta-spark before 3.2 and delta-rs",
}


@dataclass(frozen=True, slots=True)
class UndecidedWrites:
    """Writes whose verdict cannot be derived from the record, and why."""

    kind: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelEffect:
    """Certain changes in aborted writes: `more` and `fewer`, by kind; `now` is the current number.

    `append_overlaps` are the overlaps with blind appends that a stricter level would count;
    `out_of_order` the versions that would not exist, oldest first: a stricter level would have
    aborted their writes, or compared rows. None: the level stays.
    """

    days: int
    now: int
    more: Mapping[str, int]
    fewer: int
    undecided: tuple[UndecidedWrites, ...]
    unread: int
    append_overlaps: int | None = None
    out_of_order: tuple[int, ...] | None = None

    @property
    def added(self) -> int:
        return sum(self.more.values())

    @property
    def then(self) -> int:
        """The least number of aborted writes, without undecided ones."""
        return self.now + self.added - self.fewer

    @property
    def open(self) -> int:
        return sum(undecided.count for undecided in self.undecided)


def effect_of(
    table: Table,
    proposal: Proposal,
    overlaps: Overlaps,
    pairs: Sequence[ObservedPair],
    out_of_order: OutOfOrderVersions,
) -> LevelEffect | None:
    """Return the effect on conflicts; None if the settings have none that a record could show."""
    named, by_rows = proposal.properties.get(LEVEL), eligible_under(table, proposal)
    if named is None and by_rows == table.row_level_eligible:
        return None
    level = level_of(named, table)
    asked = replay_setting(table, level, row_level=by_rows)
    more: Counter[str] = Counter()
    undecided: list[UndecidedWrites] = []
    ends_rows = table.row_level_eligible and not by_rows
    stricter = named is not None and counts_appends(level)
    if stricter:
        numbers = [order.version for order in out_of_order.versions]
        taken = _find_resolving_versions(table, numbers) if ends_rows else frozenset()
        left = [order for order in out_of_order.versions if order.version not in taken]
        _stricter(left, more, undecided, by_rows=by_rows)
    fewer, unsaid = _effect_on_aborted(table, overlaps, asked)
    undecided += unsaid
    if ends_rows:
        more.update(_count_dependent_writes(table, overlaps, asked))
    return LevelEffect(
        days=DEFAULT_DAYS,
        now=sum(pair.aborted + pair.reported for pair in pairs),
        more={kind: count for kind, count in more.most_common() if count},
        fewer=fewer,
        undecided=tuple(undecided),
        unread=out_of_order.unread if stricter else 0,
        append_overlaps=_append_overlaps(overlaps) if stricter else None,
        out_of_order=tuple(sorted(order.version for order in out_of_order.versions))
        if stricter
        else None,
    )


def _stricter(
    versions: Sequence[OutOfOrderVersion],
    more: Counter[str],
    undecided: list[UndecidedWrites],
    *,
    by_rows: bool,
) -> None:
    """Count each write that passed an append over as aborted for it, or undecided."""
    passed = Counter((order.kind, order.is_known) for order in versions)
    for (kind, is_known), count in sorted(passed.items(), key=lambda item: -item[1]):
        judged = judge_replay(Rule.DATA_ADDED, "", is_known, row_level=by_rows)
        if judged.verdict is Verdict.CONFLICT:
            more[kind] += count
        else:
            undecided.append(UndecidedWrites(kind, count, judged.why))


def _effect_on_aborted(
    table: Table, overlaps: Overlaps, asked: ReplaySetting
) -> tuple[int, list[UndecidedWrites]]:
    """Return how many aborted ones would pass, and the undecidable ones, in one query."""
    key = "facts__winner__is_blind_append"
    aborted = table.conflicts.filter(
        occurred_at__gte=overlaps.since, kind__in=Conflict.ABORTED_KINDS
    )
    rows = aborted.order_by().values_list("current_operation", "rule", "isolation_level")
    groups = rows.annotate(
        n=Count("pk"), blind=Count("pk", Q(**{key: True})), seeing=Count("pk", Q(**{key: False}))
    )
    sums: Counter[tuple[str, Judgement]] = Counter()
    for operation, rule, level, n, blind, seeing in groups:
        counts = {True: blind, False: seeing, None: n - blind - seeing}
        named = operation_named(operation)
        for is_blind, count in counts.items():
            record = RecordedConflict(
                rule=rule_named(rule),
                resolved=False,
                level=level,
                winner_is_blind=is_blind,
                current=None if named is UNKNOWN else ForecastSide(kind=named.statement),
            )
            sums[operation, judge_conflict(record, asked)] += count
    fewer = sum(n for (_, judged), n in sums.items() if judged.verdict is Verdict.PASSES)
    unsaid = [
        UndecidedWrites(operation or "not recorded", count, judged.why)
        for (operation, judged), count in sums.most_common()
        if count and judged.verdict is Verdict.UNDECIDABLE
    ]
    return fewer, unsaid


def _count_dependent_writes(
    table: Table, overlaps: Overlaps, asked: ReplaySetting
) -> Mapping[str, int]:
    """Count writes that would be aborted without row-level resolution, each once."""
    lately = _select_resolved(table).filter(occurred_at__gte=overlaps.since).order_by()
    rows = lately.values_list("current_operation", "isolation_level")
    sums: Counter[str] = Counter()
    for operation, level, count in rows.annotate(n=Count(_WRITE, distinct=True)):
        record = RecordedConflict(rule=None, resolved=True, level=level)
        if judge_conflict(record, asked).verdict is Verdict.CONFLICT:
            sums[statement_kind(operation)] += count
    return sums


def _find_resolving_versions(table: Table, versions: Sequence[int]) -> frozenset[int]:
    """Return those of these versions that resolved a conflict."""
    rows = _select_resolved(table).annotate(write=_WRITE).filter(write__in=versions).order_by()
    return frozenset(rows.values_list("write", flat=True))


def _select_resolved(table: Table) -> QuerySet[Conflict]:
    return conflicts_of(table).filter(kind=Conflict.Kind.RESOLVED)


def _append_overlaps(overlaps: Overlaps) -> int:
    return sum(overlaps.counts.get((kind, INSERT), 0) for kind in (UPDATE, DELETE, MERGE))


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job to be aborted, because its metadata would change. `since`: its attempt began."""

    id: str
    kind: str
    state: str
    by: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class SeenStream:
    """A recently seen stream. A reader stops; a writer's open batch is aborted."""

    name: str
    reads: bool
    by: str = ""
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The changes and who is affected. `changes` is empty if all settings are already in force.

    `committed` are the lines of the log to be added and removed, `undone_by` the statements that
    restore the settings. `clustering` is None if it stays.
    """

    changes: Mapping[str, str]
    clustering: tuple[str, ...] | None
    committed: tuple[DiffSection, ...]
    aborted_jobs: tuple[RunningJob, ...]
    streams: tuple[SeenStream, ...]
    new_features: tuple[str, ...]
    locked_out: tuple[str, ...]
    irreversible: tuple[str, ...]
    undone_by: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def stopped(self) -> tuple[SeenStream, ...]:
        """Reading streams, which would stop."""
        return tuple(stream for stream in self.streams if stream.reads)

    @property
    def aborted_streams(self) -> tuple[SeenStream, ...]:
        """Writing streams, whose open batch may be aborted."""
        return tuple(stream for stream in self.streams if not stream.reads)


def impact_of(
    table: Table,
    properties: Mapping[str, str],
    clustering: tuple[str, ...] | None = None,
    readers: Iterable[str] = (),
) -> Impact:
    """Return the impact of settings on a mirrored table. `readers` are known streams on it."""
    proposal = proposal_of(table, properties, clustering)
    protocol = protocol_under(table, proposal) if proposal else protocol_of(table)
    features = tuple(
        sorted(list_needed_features(proposal) - list_supported_features(protocol_of(table)))
    )
    stops = bool(proposal.properties or features)
    return Impact(
        changes=proposal.properties,
        clustering=proposal.clustering,
        committed=preview_commits(table, proposal),
        aborted_jobs=_list_jobs_to_abort(table) if stops else (),
        streams=tuple(_streams(table, proposal, readers)) if stops else (),
        new_features=features,
        locked_out=tuple(_list_locked_out_clients(protocol, features)),
        irreversible=tuple(_irreversible(proposal, features)),
        undone_by=render_undo_statements(table, proposal),
        warnings=tuple(_warnings(table, proposal)),
    )


def impact_of_command(table: Table, kind: str, parameters: Mapping[str, Any]) -> Impact | None:
    """Return the impact of a command on properties or clustering; None for any other."""
    if kind == "set_properties":
        return impact_of(table, {k: str(v) for k, v in parameters.get("properties", {}).items()})
    if kind == "unset_properties":
        return impact_of(table, {key: _UNSET.get(key, "") for key in parameters.get("keys", ())})
    if kind == "alter_cluster_by":
        return impact_of(table, {}, tuple(parameters.get("columns", ())))
    return None


def _list_jobs_to_abort(table: Table) -> tuple[RunningJob, ...]:
    began = (
        active_writers(table)
        .annotate(began=Max("attempt_rows__started_at"))
        .order_by("started_at", "id")
    )
    return tuple(
        RunningJob(str(job_id), kind, state, by or "", attempt or started)
        for job_id, kind, state, by, attempt, started in began.values_list(
            "id", "kind", "state", "requested_by__username", "began", "started_at"
        )
    )


def _streams(table: Table, proposal: Proposal, readers: Iterable[str]) -> Iterator[SeenStream]:
    """Yield writers by their commits, and readers that run as jobs here."""
    if proposal.properties:  # a reader stops for metadata changes, not only for the protocol
        yield from (SeenStream(name, reads=True) for name in readers)
    since = timezone.now() - timedelta(days=STREAMS_DAYS)
    lately = table.commits.filter(operation="STREAMING UPDATE", committed_at__gte=since)
    query = KeyTextTransform("queryId", "operation_parameters")
    rows = lately.order_by().annotate(query=query).values_list("query", "user_name")
    for name, user, last_at in rows.annotate(last_at=Max("committed_at")).order_by("-last_at")[
        :MAX_STREAMS
    ]:
        yield SeenStream(name or "", False, user, last_at)


def _list_locked_out_clients(protocol: Protocol, features: tuple[str, ...]) -> Iterator[str]:
    """Describe the clients that a protocol with these additional features would lock out."""
    if features and protocol.min_writer_version < WRITER_FEATURES_VERSION:  # versions alone
        reads = any(FEATURES[feature].reader for feature in features)
        readers = f"readers below version {protocol.min_reader_version} and " if reads else ""
        writers = f"writers below version {protocol.min_writer_version}"
        yield f"{readers}{writers} of the protocol, which {', '.join(features)} needs"
        return
    for feature in features:
        who = "readers and writers" if FEATURES[feature].reader else "writers"
        such = f", {_CLIENTS[feature]}" if feature in _CLIENTS else ""
        yield f"{who} that do not support the table feature {feature}{such}"


def _irreversible(proposal: Proposal, features: tuple[str, ...]) -> Iterator[str]:
    if MODE_KEY in proposal.properties:
        yield (
            "A property cannot disable column mapping, because the files have different "
            "column names."
        )
    if features:
        yield (
            f"The protocol keeps {', '.join(features)} when the property is unset. ALTER "
            "TABLE … DROP FEATURE drops a feature, but older versions still need it."
        )


def _warnings(table: Table, proposal: Proposal) -> Iterator[str]:
    changes = proposal.properties
    if changes:
        yield (
            "This changes the metadata: writes that started before it fail, and streaming "
            "readers stop."
        )
    if changes.get(LEVEL) == IsolationLevel.SERIALIZABLE:
        yield (
            "More writes will be aborted, because blind appends then conflict with UPDATE, "
            "DELETE and MERGE. This level only adds conflicts."
        )
    if changes.get(LEVEL) == IsolationLevel.WRITE_SERIALIZABLE:
        yield "Open-source Delta honors this level but cannot set it."
    if table.row_level_eligible and not eligible_under(table, proposal):
        yield "Row-level concurrency ends, so concurrent writes to one file conflict again."
    if changes.get(ROW_TRACKING, "").lower() == "true":
        yield "Existing rows first get ids, in separate commits that restate files."
    if changes.get(ROW_TRACKING, "").lower() == "false":
        yield (
            "Row ids are no longer kept, so conflicts with OPTIMIZE ZORDER BY are then "
            "decided at file level."
        )
    if proposal.clustering is not None:
        yield from _describe_clustering(table, proposal.clustering)


def _describe_clustering(table: Table, columns: tuple[str, ...]) -> Iterator[str]:
    if table.partition_columns:
        yield "A table cannot be both partitioned and clustered. The job would refuse this."
    elif columns:
        yield "No row moves until OPTIMIZE runs. Existing files keep their order."
    else:
        yield "OPTIMIZE then only compacts. Files keep their order."
