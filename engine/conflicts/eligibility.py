"""Eligibility for row-level concurrency, condition by condition, here and on other engines.

SEMANTICS: eligible, eligibility on other engines.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.actions.table import Metadata, Protocol
from engine.protocol.features import has_feature
from engine.schema.column_mapping import ICEBERG_COMPAT_KEY
from engine.schema.types import parse_schema

VECTORS_PROPERTY = "delta.enableDeletionVectors"
ROW_TRACKING_PROPERTY = "delta.enableRowTracking"
IDENTITY_KEY = "delta.identity.start"
_NO_VECTORS = "deletion vectors are not enabled"

PREVIEW_SETTING = "spark.databricks.delta.rowLevelConcurrencyPreview"


@dataclass(frozen=True, slots=True)
class EligibilityCondition:
    """A condition of row-level concurrency on a table: whether it holds, and how to fulfil it.

    `lack` describes in general a table that does not fulfil it.
    """

    name: str
    holds: bool
    evidence: str
    fix: str = ""
    lack: str = ""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Table facts that decide the level of conflict resolution; None: unknown.

    `vectors`: deletion vectors are supported and enabled. `iceberg`: Iceberg compatibility is on,
    which excludes deletion vectors.
    """

    partition_columns: tuple[str, ...] | None = None
    clustering_columns: tuple[str, ...] | None = None
    vectors: bool | None = None
    row_tracking: bool | None = None
    identity: bool | None = None
    iceberg: bool | None = None


UNKNOWN_TABLE = TableFacts()


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Whether a table is eligible for row-level concurrency, and why.

    `traces_moves`: whether rows moved by order-preserving compactions can be traced, which needs
    only deletion vectors. `traces_order`: whether rows reordered by ZORDER BY or OPTIMIZE of a
    clustered table can be traced, which also needs row tracking.
    """

    conditions: tuple[EligibilityCondition, ...]
    traces_moves: bool
    traces_order: bool = False
    is_clustered: bool = False
    facts: TableFacts = UNKNOWN_TABLE

    @property
    def eligible(self) -> bool:
        """Whether every condition holds."""
        return all(condition.holds for condition in self.conditions)

    @property
    def traces_optimize(self) -> bool:
        """Whether OPTIMIZE of this table can be traced row by row; it reorders clustered tables."""
        return self.traces_order if self.is_clustered else self.traces_moves

    @property
    def obstacle(self) -> str | None:
        """The first obstacle, None if there is none."""
        return next(
            (condition.evidence for condition in self.conditions if not condition.holds), None
        )

    @property
    def lack(self) -> str | None:
        """The first obstacle in general words, without column names; None if there is none."""
        return next((condition.lack for condition in self.conditions if not condition.holds), None)


def table_eligibility(
    metadata: Metadata, protocol: Protocol, clustering_columns: Sequence[str] = ()
) -> Eligibility:
    """Evaluate a table's eligibility for row-level concurrency from its log."""
    setting = metadata.configuration.get(VECTORS_PROPERTY)
    supported = has_feature(protocol, "deletionVectors")
    enabled = (setting or "").lower() == "true"
    no_identity = _no_identity(metadata.schema_string)
    conditions = (
        _check_partitioning(metadata, clustering_columns),
        _vectors_supported(supported),
        _vectors_enabled(setting),
        no_identity,
    )
    return Eligibility(
        conditions,
        traces_moves=supported and enabled,
        traces_order=supported and enabled and _tracks_rows(metadata),
        is_clustered=bool(clustering_columns),
        facts=TableFacts(
            partition_columns=tuple(metadata.partition_columns),
            clustering_columns=tuple(clustering_columns),
            vectors=supported and enabled,
            row_tracking=_tracks_rows(metadata),
            identity=not no_identity.holds,
            iceberg=metadata.configuration.get(ICEBERG_COMPAT_KEY, "").lower() == "true",
        ),
    )


def _tracks_rows(metadata: Metadata) -> bool:
    return metadata.configuration.get(ROW_TRACKING_PROPERTY, "").lower() == "true"


def _check_partitioning(
    metadata: Metadata, clustering_columns: Sequence[str]
) -> EligibilityCondition:
    name = "unpartitioned or liquid-clustered"
    if clustering_columns:
        return EligibilityCondition(name, True, f"clustered by {', '.join(clustering_columns)}")
    if not metadata.partition_columns:
        return EligibilityCondition(name, True, "the table is not partitioned")
    columns = ", ".join(metadata.partition_columns)
    fix = "Cluster the table by those columns instead (CLUSTER BY), which means rewriting it."
    evidence = f"the table is partitioned by {columns}"
    return EligibilityCondition(name, False, evidence, fix, "the table is partitioned")


def _vectors_supported(supported: bool) -> EligibilityCondition:
    name = "deletion vectors supported"
    if supported:
        return EligibilityCondition(name, True, "the protocol lists deletionVectors")
    evidence = "the protocol does not list deletionVectors"
    fix = (
        f"Set {VECTORS_PROPERTY} to true. This upgrades the protocol, and older readers lose "
        "access."
    )
    return EligibilityCondition(name, False, evidence, fix, _NO_VECTORS)


def _vectors_enabled(setting: str | None) -> EligibilityCondition:
    name = "deletion vectors enabled"
    if setting is None:
        evidence = f"{VECTORS_PROPERTY} is not set"
        return EligibilityCondition(
            name, False, evidence, f"Set {VECTORS_PROPERTY} to true.", _NO_VECTORS
        )
    evidence = f"{VECTORS_PROPERTY} is {setting}"
    if setting.lower() == "true":
        return EligibilityCondition(name, True, evidence)
    return EligibilityCondition(
        name, False, evidence, f"Set {VECTORS_PROPERTY} to true.", _NO_VECTORS
    )


def _no_identity(schema_string: str) -> EligibilityCondition:
    name = "no identity columns"
    columns = []
    if (
        IDENTITY_KEY in schema_string or "\\u" in schema_string
    ):  # skip parsing without identity columns
        schema = parse_schema(schema_string)
        columns = [column.name for column in schema if IDENTITY_KEY in column.metadata]
    if not columns:
        return EligibilityCondition(name, True, "no column is an identity column")
    evidence = f"{', '.join(columns)} is an identity column: inserts change the metadata"
    fix = "Assign the ids outside the table, and drop the identity column."
    return EligibilityCondition(name, False, evidence, fix, "the table has an identity column")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The requirements of one runtime, beyond those on the table.

    `clustered_only`: other tables are eligible only with `setting`, or never if it is empty.
    `limits` are in words.
    """

    name: str
    supported: bool = True
    clustered_only: bool = False
    setting: str = ""
    limits: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeVerdict:
    """Whether a table is eligible on a runtime, and under which conditions."""

    runtime: str
    takes_part: bool
    reason: str
    limits: str = ""


RUNTIMES = (
    Runtime("this engine"),
    Runtime("Databricks Runtime 14.3 LTS and later", limits="including MERGE without Photon"),
    Runtime(
        "Databricks Runtime 14.2",
        limits="MERGE needs Photon and an explicit predicate on the target",
    ),
    Runtime(
        "Databricks Runtime 14.0, 14.1",
        clustered_only=True,
        setting=PREVIEW_SETTING,
        limits="without Photon DELETE only",
    ),
    Runtime(
        "Databricks Runtime 13.3 LTS",
        clustered_only=True,
        limits="without Photon DELETE only",
    ),
    Runtime("delta-spark, delta-rs (open source)", supported=False),
)


def runtime_verdicts(table: Eligibility, *, clustered: bool) -> tuple[RuntimeVerdict, ...]:
    """Return for every runtime whether a table takes part in row-level concurrency there."""
    return tuple(_verdict(runtime, table, clustered=clustered) for runtime in RUNTIMES)


def _verdict(runtime: Runtime, table: Eligibility, *, clustered: bool) -> RuntimeVerdict:
    missing = _find_obstacle(runtime, table, clustered=clustered)
    if missing is not None:
        return RuntimeVerdict(runtime.name, False, missing, runtime.limits)
    asked = runtime.clustered_only and not clustered
    reason = f"with {runtime.setting} = true" if asked else "every condition holds"
    return RuntimeVerdict(runtime.name, True, reason, runtime.limits)


def _find_obstacle(runtime: Runtime, table: Eligibility, *, clustered: bool) -> str | None:
    """Return the obstacle to eligibility on a runtime, None if there is none."""
    if not runtime.supported:
        return "it always decides at file level"
    if table.obstacle is not None:
        return table.obstacle
    outside = runtime.clustered_only and not clustered and not runtime.setting
    return "it compares rows only of liquid-clustered tables" if outside else None
