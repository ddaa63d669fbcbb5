"""Engines with row-level concurrency (SEMANTICS: eligibility on other engines)."""

from dataclasses import dataclass

from engine.conflicts.eligibility import Eligibility

PREVIEW_SETTING = "spark.databricks.delta.rowLevelConcurrencyPreview"


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
    Runtime("Databricks Runtime 14.3 LTS and later", limits="MERGE without Photon too"),
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
        return "files decide there, whatever the table is"
    if table.obstacle is not None:
        return table.obstacle
    outside = runtime.clustered_only and not clustered and not runtime.setting
    return "only liquid-clustered tables take part there" if outside else None
