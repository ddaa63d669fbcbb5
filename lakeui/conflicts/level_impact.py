"""What a change of a table's isolation settings would do, before it is done."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from lakeui.catalog.models import Table

LEVEL = "delta.isolationLevel"
VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING = "delta.enableRowTracking"
SETTINGS = (LEVEL, VECTORS, ROW_TRACKING)
STREAMS_DAYS = 7

PROMISES = {
    "Serializable": "Committed writes and all reads are serializable, in the order of the history.",
    "WriteSerializable": (
        "Writes are serializable, in an order that may differ from the history: a blind append may"
        " be ordered after a write that did not see it."
    ),
}
_FEATURES = {VECTORS: ("deletionVectors",), ROW_TRACKING: ("rowTracking", "domainMetadata")}
_UNSET = {LEVEL: "WriteSerializable", VECTORS: "false", ROW_TRACKING: "false"}
_FOR_READERS = frozenset({"deletionVectors"})


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that would lose, because the metadata it read would change."""

    id: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What would change and who would notice. `changes` is empty where all is as asked already."""

    changes: Mapping[str, str]
    losing_jobs: tuple[RunningJob, ...]
    streams: tuple[str, ...]
    new_features: tuple[str, ...]
    locked_out: tuple[str, ...]
    irreversible: tuple[str, ...]
    warnings: tuple[str, ...]


def impact_of(table: Table, properties: Mapping[str, str]) -> Impact:
    """The impact of setting these properties, of `SETTINGS`, on a table as mirrored."""
    changes = {
        name: value
        for name, value in properties.items()
        if str(table.properties.get(name, "")).lower() != value.lower()
    }
    features = tuple(_new_features(table, changes))
    return Impact(
        changes=changes,
        losing_jobs=_losing_jobs(table) if changes else (),
        streams=tuple(_streams(table)) if changes else (),
        new_features=features,
        locked_out=tuple(_locked_out(features)),
        irreversible=tuple(_irreversible(features)),
        warnings=tuple(_warnings(table, changes)),
    )


def impact_of_command(table: Table, kind: str, parameters: Mapping[str, Any]) -> Impact | None:
    """Of a command that sets or unsets properties; None for any other."""
    if kind == "set_properties":
        return impact_of(table, {k: str(v) for k, v in parameters.get("properties", {}).items()})
    if kind == "unset_properties":
        return impact_of(table, {key: _UNSET.get(key, "") for key in parameters.get("keys", ())})
    return None


def _losing_jobs(table: Table) -> tuple[RunningJob, ...]:
    rows = table.jobs.filter(dry_run=False, state__in=["running", "committing"])
    return tuple(
        RunningJob(str(job_id), kind, state)
        for job_id, kind, state in rows.values_list("id", "kind", "state")
    )


def _streams(table: Table) -> Iterator[str]:
    """Streams that wrote lately would lose a batch; those that read cannot be seen from here."""
    since = timezone.now() - timedelta(days=STREAMS_DAYS)
    lately = table.commits.filter(operation="STREAMING UPDATE", committed_at__gte=since)
    for name in lately.order_by().values_list("user_name", flat=True).distinct():
        yield f"a stream of {name or 'someone not recorded'} wrote in the last {STREAMS_DAYS} days"


def _new_features(table: Table, changes: Mapping[str, str]) -> Iterator[str]:
    for name, value in changes.items():
        if value.lower() == "true":
            yield from (f for f in _FEATURES.get(name, ()) if f not in table.writer_features)


def _locked_out(features: tuple[str, ...]) -> Iterator[str]:
    for feature in features:
        who = "readers and writers" if feature in _FOR_READERS else "writers"
        yield f"{who} that do not know the table feature {feature}"


def _irreversible(features: tuple[str, ...]) -> Iterator[str]:
    if features:
        yield (
            f"The protocol keeps {', '.join(features)} when the property is unset: dropping a"
            " feature takes ALTER TABLE … DROP FEATURE, and older versions still need it."
        )


def _warnings(table: Table, changes: Mapping[str, str]) -> Iterator[str]:
    if changes:
        yield "It changes the metadata: writes that began before it fail, streaming readers stop."
    if changes.get(LEVEL) == "Serializable":
        yield (
            "More writes will lose: blind appends then count for UPDATE, DELETE and MERGE. It adds"
            " conflicts and cures none."
        )
    if changes.get(LEVEL) == "WriteSerializable":
        yield "Open-source Delta honours this level where it finds it, and refuses to set it."
    if changes.get(VECTORS, "").lower() == "false" and table.row_level_eligible:
        yield "Row-level concurrency ends: writes of one file conflict again."
