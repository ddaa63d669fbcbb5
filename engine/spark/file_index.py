"""Files of a version as a Spark relation: the engine chooses, Spark's Parquet reader reads.

Spark asks a relation for its files by `SparkFileIndex`, with the filters of the query. The index
prunes partitions and skips files by the log's statistics, and each file has constants (its number,
its partition values) as columns at no cost per row.
"""

import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from engine.actions.files import AddFile
from engine.errors import EngineError
from engine.expressions.tree import Expression
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import column
from engine.spark.file_objects import directories
from engine.spark.jvm import (
    data_type,
    frame_over,
    get_analysed_plan,
    iter_seq,
    keep_in_jvm,
    scala_seq,
    sql_package,
)
from engine.spark.live_tables import LiveTable
from engine.spark.pushed_filters import translate_filters

LIVE_MARK = "lake.live"
"""An option of relations over the latest version; equal for relations over the same files."""
Chooser = Callable[[Expression], Collection[AddFile]]


@dataclass(frozen=True)
class ConstantColumn:
    """A column with one value per file, in the order of the files."""

    name: str
    values: pa.Array
    type: spark_types.DataType
    nullable: bool = True


@dataclass(frozen=True)
class IndexedFiles:
    """The files of a relation.

    Attributes:
        uri: the table's.
        files: the files; `paths` as Spark spells them, `sizes` in bytes.
        constants: columns beside those of the files.
        schema: of the columns in the files.
        options: options of the scan in its plan.
        identity: equal for relations that read the same files; "" equals none.
        choose: returns the files that may hold a row of a condition over the columns in `names`.
        names: logical names by those in the files.
    """

    uri: str
    files: Sequence[AddFile]
    paths: Sequence[str]
    sizes: Sequence[int]
    constants: Sequence[ConstantColumn]
    schema: spark_types.StructType
    options: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    choose: Chooser | None = None
    names: Mapping[str, Expression] = field(default_factory=dict)


@dataclass(frozen=True)
class LiveFiles:
    """The files of a table's latest version at the time of each query.

    Attributes:
        made: the files of the version that gave the relation its columns.
        table: the table.
        at: lists the files of a version.
    """

    made: IndexedFiles
    table: LiveTable
    at: Callable[[Snapshot], IndexedFiles]


listing_errors: deque[EngineError] = deque(maxlen=64)
"""The latest errors raised to the JVM, which passes on their text alone."""
_MOST_MARKS = 4096
_live: dict[str, "WeakSet[SparkFileIndex]"] = {}
"""Indexes by their marks; those of one mark read the same. The JVM keeps one as long as a plan has it."""


def identity_of(snapshot: Snapshot) -> str:
    """Return the identity of all live files of a version."""
    return f"{snapshot.metadata.id} {snapshot.version}"


def read_indexed_rows(spark: SparkSession, listed: IndexedFiles | LiveFiles) -> DataFrame:
    """Return the rows of the files: their columns and the constants."""
    inside: Any = spark
    relation = _relation(spark, listed)
    return DataFrame(inside._jsparkSession.baseRelationToDataFrame(relation), spark)


def live_files(mark: str) -> LiveFiles:
    """Return the files of the relation with this mark as LIVE_MARK."""
    return next(index.live for index in _live[mark] if index.live is not None)


def relation_at(spark: SparkSession, live: LiveFiles, snapshot: Snapshot) -> Any:  # noqa: ANN401
    """Return a relation of the same files fixed at a version.

    Raises:
        SchemaChangedSinceAnalysisError: the version has other columns.
    """
    is_made = live.made.identity == identity_of(snapshot)
    return _relation(spark, live.made if is_made else live.at(snapshot))


def _relation(spark: SparkSession, given: IndexedFiles | LiveFiles) -> Any:  # noqa: ANN401
    inside: Any = spark
    ensure_callback_server_started(inside.sparkContext._gateway)  # type: ignore[no-untyped-call]
    index = SparkFileIndex(spark, given)
    listed = given if isinstance(given, IndexedFiles) else given.made
    options = dict(listed.options)
    if isinstance(given, LiveFiles):
        options[LIVE_MARK] = mark = f"{listed.identity} {given.table.access}"
        if mark not in _live and len(_live) >= _MOST_MARKS:
            for unused in [key for key, indexes in list(_live.items()) if not indexes]:
                del _live[unused]
        _live.setdefault(mark, WeakSet()).add(index)
    jvm, context = inside._jvm, spark.sparkContext
    sources = keep_in_jvm(context, "sources", lambda: sql_package(spark).execution.datasources)
    relation_of = keep_in_jvm(context, "HadoopFsRelation", lambda: sources.HadoopFsRelation)
    schema = data_type(listed.schema.json(), spark)
    return relation_of(
        index,
        index.partitionSchema(),
        schema,
        keep_in_jvm(context, "None", lambda: jvm.scala.Option.apply(None)),
        keep_in_jvm(context, "ParquetFileFormat", lambda: sources.parquet.ParquetFileFormat)(),
        jvm.PythonUtils.toScalaMap(options),
        inside._jsparkSession,
    )


class SparkFileIndex:
    """Spark's `SparkFileIndex`: called on the driver, from whichever thread plans a query."""

    class Java:
        """Py4J's declaration of the implemented interface."""

        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)

    def __init__(self, spark: SparkSession, given: IndexedFiles | LiveFiles) -> None:
        """Keep the files; JVM objects are created at the first query."""
        listed = given if isinstance(given, IndexedFiles) else given.made
        self._spark, self._listed = spark, listed
        self.live = given if isinstance(given, LiveFiles) else None
        self._constants = listed.constants
        self._identity = listed.identity or uuid.uuid4().hex
        fields = [spark_types.StructField(c.name, c.type, c.nullable) for c in self._constants]
        self._schema = spark_types.StructType(fields)
        self._partition_schema = data_type(self._schema.json(), spark)
        self._all: tuple[str, Any] | None = None
        self._roots: Any = None

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: ANN401, N802 - Spark's
        """List the files that may hold rows: Spark reapplies all but partition filters."""
        try:
            listed = self._current()
        except EngineError as error:
            listing_errors.append(error)
            raise
        kept = set(range(len(listed.files)))
        if not partition_filters.isEmpty():
            kept &= self._find_by_partition(listed, partition_filters)
        if listed.choose is not None:
            kept &= self._find_by_statistics(listed, listed.choose, data_filters)
        if len(kept) < len(listed.files):
            return self._directories(listed, sorted(kept))
        whole = self._all
        if whole is None or whole[0] != listed.identity:
            everything = self._directories(listed, range(len(listed.files)))
            self._all = whole = listed.identity, everything
        return whole[1]

    def _current(self) -> IndexedFiles:
        """Return the files of the version read by the running query."""
        if self.live is None:
            return self._listed
        snapshot, listed = self.live.table.latest(self._spark), self._listed
        if listed.identity != identity_of(snapshot):
            self._listed = listed = self.live.at(snapshot)
        return listed

    def partitionSchema(self) -> Any:  # noqa: ANN401, N802
        """Return the schema of the constants."""
        return self._partition_schema

    def rootPaths(self) -> Any:  # noqa: ANN401, N802
        """Return the table's location, cached: a query asks for it a dozen times."""
        if self._roots is None:
            self._roots = scala_seq([self._hadoop_path(self._listed.uri)], self._spark)
        return self._roots

    def inputFiles(self) -> Any:  # noqa: ANN401, N802
        """Return every file."""
        inside: Any = self._spark
        gateway = inside.sparkContext._gateway
        paths = self._current().paths
        names = gateway.new_array(gateway.jvm.String, len(paths))
        for i, path in enumerate(paths):
            names[i] = str(self._hadoop_path(path).toUri().toString())
        return names

    def sizeInBytes(self) -> int:  # noqa: N802
        """Bytes of all files."""
        return sum(self._listed.sizes)

    def refresh(self) -> None:
        """Do nothing: nothing is cached."""

    def metadataOpsTimeNs(self) -> Any:  # noqa: ANN401, N802
        """Return None: the time is not measured."""
        inside: Any = self._spark
        return keep_in_jvm(
            inside.sparkContext, "None", lambda: inside._jvm.scala.Option.apply(None)
        )

    def isTimeTravel(self) -> bool:  # noqa: N802
        """Whether a plan must be analysed again at a later version: never."""
        return False

    def toString(self) -> str:  # noqa: N802
        """Return the text by which two indexes are compared."""
        kind = "files" if self.live is None else "latest files, since"
        return f"{kind} of {self._listed.uri} {self._identity}"

    def hashCode(self) -> int:  # noqa: N802
        """Return the hash of the identity."""
        return hash(self._identity) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:  # noqa: ANN401
        """Whether both read the same files, so that the cache of one serves the other."""
        return other is not None and str(other.toString()) == self.toString()

    def _hadoop_path(self, text: str) -> Any:  # noqa: ANN401
        inside: Any = self._spark
        make = keep_in_jvm(
            inside.sparkContext, "Path", lambda: inside._jvm.org.apache.hadoop.fs.Path
        )
        return make(text)

    def _directories(self, listed: IndexedFiles, places: Sequence[int]) -> Any:  # noqa: ANN401
        chosen = pa.array(places, pa.int64())
        values = {c.name: c.values.take(chosen) for c in listed.constants}
        files = [
            (listed.paths[i], listed.sizes[i], listed.files[i].modification_time) for i in places
        ]
        return directories(self._spark, self._schema, pa.table(values), files)

    def _find_by_partition(self, listed: IndexedFiles, filters: Any) -> set[int]:  # noqa: ANN401
        """Return the indexes of files whose constants satisfy filters, as evaluated by Spark."""
        values = {f"c{i}": c.values for i, c in enumerate(listed.constants)}
        values["place"] = pa.array(range(len(listed.files)), pa.int32())
        typed = [column(f"c{i}").cast(c.type).alias(c.name) for i, c in enumerate(listed.constants)]
        frame = self._spark.createDataFrame(pa.table(values)).select(column("place"), *typed)
        plan = get_analysed_plan(frame)
        catalyst = sql_package(self._spark).catalyst
        empty = scala_seq([], self._spark)
        inside: Any = self._spark
        none = inside._jvm.scala.Option.apply(None)
        outputs = list(iter_seq(plan.output()))
        of_name = {str(output.name()): output for output in outputs}
        asked = {
            reference.exprId().id(): reference
            for condition in iter_seq(filters)
            for reference in iter_seq(condition.references().toSeq())
        }
        aliases = [
            catalyst.expressions.Alias(
                of_name[str(reference.name())],
                str(reference.name()),
                reference.exprId(),
                empty,
                none,
                empty,
            )
            for reference in asked.values()
        ]
        named = catalyst.plans.logical.Project(scala_seq([outputs[0], *aliases], self._spark), plan)
        for condition in iter_seq(filters):
            named = catalyst.plans.logical.Filter(condition, named)
        rows = frame_over(named, self._spark).select("place").collect()
        return {int(row[0]) for row in rows}

    def _find_by_statistics(self, listed: IndexedFiles, choose: Chooser, filters: Any) -> set[int]:  # noqa: ANN401
        condition = translate_filters(self._spark, filters, listed.names)
        everything = range(len(listed.files))
        if condition is None:
            return set(everything)
        keys = {add.key for add in choose(condition)}
        return {i for i in everything if listed.files[i].key in keys}
