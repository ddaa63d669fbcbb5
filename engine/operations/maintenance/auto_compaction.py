"""Auto compaction: a write with many small files in its partitions is followed by their compaction.

As in delta-spark, a partition with newly added files is compacted once it has at least
`minNumFiles` files below `minFileSize`, by default half of `maxFileSize`. The settings come from
the command, else from the Spark setting `spark.databricks.delta.autoCompact.enabled`, else from the
table's `delta.autoOptimize.autoCompact`. The compaction is an OPTIMIZE with a commit of its own,
checked like any other; the write has committed before and stands even if the compaction fails.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from engine.actions.files import AddFile, RemoveFile
from engine.commands.command import Command
from engine.commands.merge import Merge
from engine.commands.model import Append, Create, Delete, Optimize, Overwrite, Stream, Update
from engine.commands.writes import AS_TABLE, ON
from engine.errors import EngineError
from engine.expressions.build import call
from engine.expressions.render import to_sql
from engine.expressions.tree import Column, Expression, Literal
from engine.log.commits import read_commit
from engine.operations.execution import Execution
from engine.operations.result import FollowUp, OperationResult
from engine.operations.run_options import FollowUpRunner
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import parse_partition_value
from engine.snapshot.snapshot import Snapshot

MIN_FILES = 50
MAX_PARTITIONS = 128
_SETTINGS = "spark.databricks.delta.autoCompact."
_NAMES = ("enabled", "minNumFiles", "minFileSize", "maxFileSize")
_WRITES = (Append, Create, Delete, Merge, Overwrite, Stream, Update)
_MAX_CHARACTERS = 20_000

Partition = tuple[tuple[str, str | None], ...]
"""Physical names and values, sorted: equal for files of one partition."""
Settings = Mapping[str, str]
"""Spark's `spark.databricks.delta.autoCompact.*`, by the last part of their names."""


@dataclass(frozen=True)
class CompactionTerms:
    """`min_files` files below `small_bytes` are worth joining, into files of `target_bytes`."""

    min_files: int
    small_bytes: int
    target_bytes: int

    @classmethod
    def resolve(
        cls, settings: Settings, table_target_bytes: int, command: Optimize | None = None
    ) -> "CompactionTerms":
        """Resolve each limit: the command's, else Spark's setting, else the table's or default."""
        target = command.target_size_bytes if command else None
        target = target or _number(settings, "maxFileSize", table_target_bytes)
        least = command.min_files if command else None
        least = least or _number(settings, "minNumFiles", MIN_FILES)
        return cls(least, _number(settings, "minFileSize", target // 2), target)


def follow_up(
    command: Command, execution: Execution, result: OperationResult, runner: FollowUpRunner
) -> OperationResult:
    """Run the compaction due after a write, if any, and add it to the write's result.

    Errors are recorded in the result and never raised: the write has been committed.
    """
    compaction: Optimize | None = None
    try:
        if isinstance(command, _WRITES) and result.versions and execution.session is not None:
            settings = settings_of(execution.session)
            compaction = compaction_after(command, execution, result.versions, settings)
        if compaction is None:
            return result
        done = runner(compaction)
    except Exception as error:  # noqa: BLE001 - the write has committed; its result reports the error
        code = error.code if isinstance(error, EngineError) else "LAKE_INTERNAL"
        return result.add_follow_up(FollowUp(compaction, None, code, str(error)))
    return result.add_follow_up(FollowUp(compaction, done))


def compaction_after(
    command: Command, execution: Execution, versions: Iterable[int], settings: Settings
) -> Optimize | None:
    """Return the compaction due after a write of these versions; None if none is due."""
    if not _is_on(command, settings, execution.last_read or execution.table.snapshot()):
        return None  # skip reading the log: most writes do not need it
    snapshot = execution.table.snapshot()
    terms = CompactionTerms.resolve(settings, execution.files_of(snapshot).target_size_bytes)
    counts = _small_files(snapshot, terms.small_bytes)
    if sum(counts.values()) < terms.min_files:
        return None
    written = _find_touched_partitions(execution, versions)
    chosen = [partition for partition, count in counts.most_common() if count >= terms.min_files]
    chosen = [partition for partition in chosen if partition in written][:MAX_PARTITIONS]
    if not chosen:
        return None
    return Optimize(
        _condition(snapshot, chosen),
        target_size_bytes=terms.target_bytes,
        auto=True,
        min_files=terms.min_files,
    )


def worth_joining(files: Iterable[AddFile], terms: CompactionTerms) -> list[AddFile]:
    """Return the small files of partitions with at least `terms.min_files` of them."""
    small = [add for add in files if add.size < terms.small_bytes]
    counts = Counter(_partition(add.partition_values) for add in small)
    return [add for add in small if counts[_partition(add.partition_values)] >= terms.min_files]


def settings_of(session: SparkSession | None) -> Settings:
    """Return the session's auto compaction settings, by name."""
    if session is None:
        return {}
    settings = {name: session.conf.get(f"{_SETTINGS}{name}", None) for name in _NAMES}
    return {name: value for name, value in settings.items() if value is not None}


def _is_on(command: Command, settings: Settings, snapshot: Snapshot) -> bool:
    choice = getattr(command, "auto_compact", AS_TABLE)
    if choice != AS_TABLE:
        return bool(choice == ON)
    if "enabled" in settings:
        return settings["enabled"].lower() != "false"
    return snapshot.properties.compacts_itself


def _number(settings: Settings, name: str, otherwise: int) -> int:
    """Parse a number of bytes or files; anything but a positive integer counts as not set."""
    digits = settings.get(name, "").strip().lower().removesuffix("b")
    return int(digits) if digits.isdecimal() and int(digits) > 0 else otherwise


def _small_files(snapshot: Snapshot, small_bytes: int) -> Counter[Partition]:
    files = snapshot.state.files
    small = files.filter(pc.less(files.column("size"), small_bytes))
    return Counter(
        _partition(dict(values or ())) for values in small["partition_values"].to_pylist()
    )


def _find_touched_partitions(execution: Execution, versions: Iterable[int]) -> set[Partition]:
    """Return the partitions with files added by commits; a new vector for an old file adds none."""
    partitions: set[Partition] = set()
    for version in versions:
        actions = read_commit(execution.table.store, version).actions
        old = {action.path for action in actions if isinstance(action, RemoveFile)}
        partitions.update(
            _partition(action.partition_values)
            for action in actions
            if isinstance(action, AddFile) and action.path not in old
        )
    return partitions


def _partition(values: Mapping[str, str | None]) -> Partition:
    return tuple(sorted((name, value or None) for name, value in values.items()))


def _condition(snapshot: Snapshot, partitions: Collection[Partition]) -> str | None:
    """Render partitions as a condition; return None (the whole table) if it would be too long."""
    if not snapshot.partition_columns:
        return None
    trees = [_conjunction(snapshot, dict(partition)) for partition in partitions]
    text = to_sql(call("or", trees) if len(trees) > 1 else trees[0])
    return text if len(text) <= _MAX_CHARACTERS else None


def _conjunction(snapshot: Snapshot, values: Mapping[str, str | None]) -> Expression:
    terms = []
    for field in snapshot.partition_schema:
        text = values.get(physical_name(field, snapshot.mapping_mode))
        value = Literal(parse_partition_value(text, field.type), field.type)
        terms.append(call("<=>", (Column((field.name,), field.type), value)))
    return call("and", terms) if len(terms) > 1 else terms[0]
