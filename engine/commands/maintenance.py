"""Maintenance commands: optimize, reorg, vacuum, restore.

A version is named by its number or by a time.
"""

from dataclasses import dataclass
from typing import ClassVar

from engine.commands.command import Command, check_columns
from engine.commands.fields import parameter
from engine.commands.names import column_list, options_sql, render_where, table_sql
from engine.errors import RequestError, RetentionTooShortError
from engine.expressions.literals import parse_timestamp
from engine.expressions.render import quote_string
from engine.schema.types import StructType
from engine.vocabulary import OPTIMIZE, REORG, UPGRADE, ZORDER, Operation

MIN_FILES = 2
MAX_RETENTION_HOURS = 24 * 365 * 100

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Optimize(Command):
    """Compact small files, purge deletion vectors, cluster or sort."""

    kind: ClassVar[str] = "optimize"
    help: ClassVar[str] = "Compact many small files into a few large ones. No row changes."
    where: str | None = parameter(
        "Only partitions where", "condition", default=None, help="Partition columns only."
    )
    zorder_by: tuple[str, ...] = parameter("Z-order by", "columns", default=())
    full: bool = parameter(
        "Full", "boolean", default=False, help="Cluster all files again, not only new ones."
    )
    target_size_bytes: int | None = parameter(
        "Target size of a file", "integer", default=None, minimum=1, help="In bytes."
    )
    auto: bool = parameter(
        "Automatic compaction: only partitions with many small files",
        "boolean",
        default=False,
        help="Compact only files below half the target size, in partitions that have enough "
        "of them. Writes do this if delta.autoOptimize.autoCompact is set.",
    )
    min_files: int | None = parameter(
        "Minimum number of small files",
        "integer",
        default=None,
        minimum=MIN_FILES,
        help="For each partition, 50 by default. Only for automatic compaction.",
    )

    @property
    def operation(self) -> Operation:
        """The operation: ZORDER BY orders rows."""
        return ZORDER if self.zorder_by else OPTIMIZE

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if self.auto and (self.full or self.zorder_by):
            what = "Automatic compaction cannot be combined with FULL or ZORDER BY."
            raise RequestError(what, "Remove one of them.", field="auto")
        if self.min_files is not None and self.min_files < MIN_FILES:
            what = f"A minimum of {self.min_files} small files leaves nothing to compact."
            raise RequestError(what, f"Use {MIN_FILES} or more.", field="min_files")
        if self.min_files is not None and not self.auto:
            what = "min_files applies only to automatic compaction."
            raise RequestError(what, "Set auto as well, or leave min_files out.", field="min_files")
        if self.full and (self.zorder_by or self.where):
            what = "OPTIMIZE FULL cannot be combined with WHERE or ZORDER BY."
            raise RequestError(what, "Remove one of them.", field="full")
        check_columns(self.zorder_by, schema, "zorder_by")
        if schema is not None:
            self.condition(schema)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        full = " FULL" if self.full else ""
        order = f" ZORDER BY {column_list(self.zorder_by)}" if self.zorder_by else ""
        options = options_sql(
            {
                "targetSizeBytes": self.target_size_bytes,
                "auto": self.auto,
                "minNumFiles": self.min_files,
            }
        )
        return f"OPTIMIZE {table_sql(self.table)}{full}{render_where(self.where)}{order}{options}"


@dataclass(frozen=True)
class Reorg(Command):
    """Rewrite files to purge deleted rows, or to suit readers of another format."""

    kind: ClassVar[str] = "reorg"
    help: ClassVar[str] = "Rewrite files that hold deleted rows. No row changes."
    where: str | None = parameter(
        "Only partitions where", "condition", default=None, help="Partition columns only."
    )
    upgrade_uniform: int | None = parameter(
        "Upgrade to Iceberg compatibility version",
        "integer",
        default=None,
        minimum=1,
        help="Instead of purging, rewrite the files so that Iceberg clients can read the table.",
    )

    @property
    def operation(self) -> Operation:
        """The operation: UPGRADE UNIFORM changes the protocol."""
        return REORG if self.upgrade_uniform is None else UPGRADE

    def validate(self, schema: StructType | None) -> None:
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if self.upgrade_uniform is not None and self.where:
            what = "REORG … UPGRADE UNIFORM cannot have a WHERE."
            raise RequestError(what, "Leave it out.", field="where")
        if schema is not None:
            self.condition(schema)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        action = "PURGE"
        if self.upgrade_uniform is not None:
            action = f"UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = {self.upgrade_uniform})"
        return f"REORG TABLE {table_sql(self.table)}{render_where(self.where)} APPLY ({action})"


@dataclass(frozen=True)
class Vacuum(Command):
    """Delete files needed by no version within the retention."""

    kind: ClassVar[str] = "vacuum"
    help: ClassVar[str] = (
        "Delete files that no retained version needs. Older versions can then no longer be read."
    )
    retention_hours: float | None = parameter(
        "Retention in hours",
        "number",
        default=None,
        minimum=0,
        help="The table's own retention by default, which is 168 hours unless it is set.",
    )
    lite: bool = parameter(
        "Lite",
        "boolean",
        default=False,
        help="Find the files in the log, without listing the storage.",
    )
    override_retention: bool = parameter(
        "Allow a retention below the table's",
        "boolean",
        default=False,
        help="Reads and writes that run longer than the retention may fail.",
    )

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        hours = self.retention_hours
        if hours is not None and not 0 <= hours <= MAX_RETENTION_HOURS:
            what = f"A retention of {hours} hours is not possible."
            raise RequestError(
                what, "Use a number of hours between 0 and a century.", field="retention_hours"
            )

    def retention_ms(self, table: str, default_ms: int) -> int:
        """Return how long files of older versions are retained; `default_ms` is the table's setting.

        Raises:
            RetentionTooShortError: shorter than the table's retention, without an explicit
                override.
        """
        if self.retention_hours is None:
            return default_ms
        asked_ms = round(self.retention_hours * HOUR_MS)
        if asked_ms < default_ms and not self.override_retention:
            msg = (
                f"VACUUM of {table} was asked to keep {self.retention_hours:g} hours, less "
                f"than the table's retention of {default_ms / HOUR_MS:g} hours. Versions that "
                "readers and running jobs may still use would break."
            )
            raise RetentionTooShortError(
                msg,
                "Keep at least that many hours, or allow fewer with WITH "
                "('overrideRetention' = 'true') or, in"
                " PySpark, spark.databricks.delta.retentionDurationCheck.enabled = false.",
                field="retention_hours",
            )
        return max(asked_ms, 0)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        lite = " LITE" if self.lite else ""
        hours = "" if self.retention_hours is None else f" RETAIN {self.retention_hours:.15g} HOURS"
        options = options_sql({"overrideRetention": self.override_retention})
        return f"VACUUM {table_sql(self.table)}{lite}{hours}{options}"


@dataclass(frozen=True)
class Restore(Command):
    """Make an earlier version the current one, as a new commit."""

    kind: ClassVar[str] = "restore"
    help: ClassVar[str] = "Restore an earlier version as a new version."
    version: int | None = parameter("Version", "integer", default=None, minimum=0)
    timestamp: str | None = parameter(
        "Time", "timestamp", default=None, help="The version that was current at this time, in UTC."
    )

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if self.version is None and self.timestamp is None:
            what = "RESTORE needs a version or a time."
            raise RequestError(what, "Add one of them.", field="version")
        check_point(self.version, self.timestamp, "RESTORE")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        point = point_sql(self.version, self.timestamp)
        return f"RESTORE TABLE {table_sql(self.table)} TO {point}"


def check_point(version: int | None, timestamp: str | None, command: str) -> None:
    """Refuse an invalid version or time; neither of both is allowed and means the latest.

    Raises:
        RequestError: both are given, the version is negative, or the text is not a time.
    """
    if version is not None and timestamp is not None:
        what = f"{command} cannot have both a version and a time."
        raise RequestError(what, "Remove one of them.", field="version")
    if version is not None and version < 0:
        what = f"{command} cannot go to version {version}."
        raise RequestError(what, "Versions begin at 0.", field="version")
    if timestamp is not None and parse_timestamp(timestamp) is None:
        what = f"{timestamp[:100]!r} is not a time."
        raise RequestError(what, "Write it as 2026-11-02 12:00:00.", field="timestamp")


def point_sql(version: int | None, timestamp: str | None) -> str:
    """Render `VERSION AS OF n` or `TIMESTAMP AS OF 'time'`; "" for the latest."""
    if timestamp is not None:
        return f"TIMESTAMP AS OF {quote_string(timestamp)}"
    return "" if version is None else f"VERSION AS OF {version}"
