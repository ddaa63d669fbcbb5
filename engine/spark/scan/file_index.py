"""Files of a version as a Spark relation: the engine chooses, Spark's Parquet reader reads.

Spark asks a relation for its files by `SparkFileIndex`, with the filters of the query. The index
prunes partitions and skips files by the log's statistics, and each file has constants (its number,
its partition values) as columns at no cost per row. The JVM makes the file objects from one pickled
list, not file by file.

A filter that is not translated skips nothing: Spark evaluates every filter again.
"""

import pickle
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from engine.actions.files import AddFile
from engine.errors import EngineError, ExpressionError
from engine.expressions import build
from engine.expressions.traits import conjunction
from engine.expressions.tree import Expression, Literal
from engine.schema.types import TIMESTAMP
from engine.snapshot.snapshot import Snapshot
from engine.spark.classic_columns import classic_nodes
from engine.spark.column_nodes import AttributeNode, CallNode, ConstantNode, Node
from engine.spark.columns import column
from engine.spark.jvm import (
    column_of,
    data_type,
    expressions,
    frame_over,
    get_analyzed_plan,
    iter_seq,
    keep_in_jvm,
    scala_seq,
    sql_package,
)
from engine.spark.scan.live_tables import LiveTable

LIVE_MARK = "lake.live"
"""An option of relations over the latest version; equal for relations over the same files."""
Chooser = Callable[[Expression], Collection[AddFile]]

_SOURCES = "org.apache.spark.sql.execution.datasources."
_FILE = spark_types.StructType().add("path", "string").add("size", "long").add("time", "long")

_COMPARISONS = frozenset({"=", "<=>", "<", "<=", ">", ">=", "in"})
_LOGIC = frozenset({"and", "or", "not", "isnull", "isnotnull"})


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

_makers: WeakKeyDictionary[Any, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()
"""By gateway and type: to make one takes some sixty calls of the JVM."""
_MOST_MAKERS = 256


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
        """Whether a plan must be analyzed again at a later version: never."""
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
        plan = get_analyzed_plan(frame)
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


def directories(
    spark: SparkSession,
    schema: spark_types.StructType,
    values: pa.Table,
    files: Sequence[tuple[str, int, int]],
) -> Any:  # noqa: ANN401 - the JVM's
    """Return each file as a partition of its own."""
    kind = spark_types.ArrayType(
        spark_types.StructType()
        .add("values", _nullable(schema))
        .add("files", spark_types.ArrayType(_FILE))
    )
    columns = [
        _convert_to_spark_storage(values.column(i)).to_pylist() for i in range(values.num_columns)
    ]
    constants = zip(*columns, strict=True) if columns else [()] * len(files)
    rows = [(of_file, [file]) for of_file, file in zip(constants, files, strict=True)]
    inside: Any = spark
    jvm: Any = inside._jvm
    unpickler = keep_in_jvm(
        spark.sparkContext, "Unpickler", lambda: jvm.net.razorvine.pickle.Unpickler
    )
    unpickled = unpickler().loads(bytearray(pickle.dumps(rows, 4)))
    from_python, make = _maker(spark, kind)
    fields = jvm.PythonUtils.toArray([from_python.apply(unpickled)])
    row = expressions(spark).GenericInternalRow(fields)
    return make.freshCopyIfContainsStatefulExpression().eval(row)


def _maker(spark: SparkSession, kind: spark_types.ArrayType) -> tuple[Any, Any]:
    """Return a converter of Python values to Spark rows, and an expression for objects of them.

    The expression holds the arguments of one object at a time: evaluate a fresh copy of it, or
    queries in several threads get each other's files.
    """
    inside: Any = spark
    of_kind = _makers.setdefault(inside.sparkContext._gateway, {})
    name = kind.json()
    if name not in of_kind:
        if len(of_kind) >= _MOST_MAKERS:
            of_kind.clear()
        evaluation = getattr(sql_package(spark).execution.python, "EvaluatePython$")
        from_python = getattr(evaluation, "MODULE$").makeFromJava(data_type(name, spark))
        of_kind[name] = from_python, _Objects(spark).build_mapping(kind)
    return of_kind[name]


def _convert_to_spark_storage(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days and microseconds since 1970 for dates and times: Python's own end with the year 9999."""
    if pa.types.is_date(values.type):
        return values.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return values


def _nullable(schema: spark_types.StructType) -> spark_types.StructType:
    """Return the schema with every field nullable: nullability is declared beside the files."""
    return spark_types.StructType(
        [spark_types.StructField(field.name, field.dataType) for field in schema]
    )


class _Objects:
    """Spark expressions that construct JVM objects."""

    def __init__(self, spark: SparkSession) -> None:
        inside: Any = spark
        self._spark, self._jvm = spark, inside._jvm
        self._expressions = expressions(spark)
        self._none = self._jvm.scala.Option.apply(None)
        self._nothing = scala_seq([], spark)

    def build_mapping(self, kind: spark_types.ArrayType) -> Any:  # noqa: ANN401
        """Return the expression that turns the first field of a row into directories."""
        make = self._expressions.objects
        whole = data_type(kind.json(), self._spark)
        directory_type = whole.elementType()
        file_type = directory_type.apply(1).dataType().elementType()
        file = make.LambdaVariable("file", file_type, False, 1)
        text = self._field(file, 0)
        name = make.Invoke(
            text,
            "toString",
            self._type("java.lang.String"),
            self._nothing,
            self._nothing,
            True,
            True,
            True,
        )
        size, time = self._field(file, 1), self._field(file, 2)
        status = self._new(
            "org.apache.hadoop.fs.FileStatus",
            size,
            self._constant(False, "boolean"),
            self._constant(1, "integer"),
            size,
            time,
            self._new("org.apache.hadoop.fs.Path", name),
        )
        no_metadata = self._expressions.Literal(
            self._jvm.PythonUtils.toScalaMap({}), self._type("scala.collection.immutable.Map")
        )
        listed = self._new(_SOURCES + "FileStatusWithMetadata", status, no_metadata)
        directory = make.LambdaVariable("directory", directory_type, False, 0)
        as_seq = self._jvm.scala.Option.apply(self._class("scala.collection.immutable.Seq"))
        files = make.MapObjects(file, listed, self._field(directory, 1), as_seq)
        made = self._new(_SOURCES + "PartitionDirectory", self._field(directory, 0), files)
        first = self._expressions.BoundReference(0, whole, False)
        return make.MapObjects(directory, made, first, as_seq)

    def _field(self, row: Any, place: int) -> Any:  # noqa: ANN401
        return self._expressions.GetStructField(row, place, self._none)

    def _new(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        return self._expressions.objects.NewInstance(
            self._class(name),
            scala_seq(arguments, self._spark),
            self._nothing,
            False,
            self._type(name),
            self._none,
        )

    def _constant(self, value: object, kind: str) -> Any:  # noqa: ANN401
        return self._expressions.Literal(value, data_type(f'"{kind}"', self._spark))

    def _type(self, name: str) -> Any:  # noqa: ANN401
        return self._jvm.org.apache.spark.sql.types.ObjectType(self._class(name))

    def _class(self, name: str) -> Any:  # noqa: ANN401
        return self._jvm.java.lang.Class.forName(name)


class _NotTranslatedError(Exception):
    """A part with a possibly different meaning in the engine."""


def translate_filters(
    spark: SparkSession,
    filters: Any,  # noqa: ANN401 - the JVM's
    names: Mapping[str, Expression],
) -> Expression | None:
    """Translate the filters as far as possible; None if none can be translated.

    `names` maps the columns' names in the files to columns.
    """
    if filters.isEmpty():
        return None
    return conjunction(trees) if (trees := list(_trees(spark, filters, names))) else None


def _trees(
    spark: SparkSession,
    filters: Any,  # noqa: ANN401
    names: Mapping[str, Expression],
) -> Iterator[Expression]:
    inside: Any = spark
    zone = inside._jvm.org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone()
    for condition in iter_seq(filters):
        references = iter_seq(condition.references().toSeq())
        if not all(str(reference.name()) in names for reference in references):
            continue
        try:
            nodes = classic_nodes(column_of(condition, spark), spark)
            yield _tree(nodes, names, is_utc=str(zone) in {"UTC", "Etc/UTC"})
        except (ExpressionError, _NotTranslatedError):
            continue


def _tree(node: Node, names: Mapping[str, Expression], *, is_utc: bool) -> Expression:
    """Translate comparisons of columns and constants of one type, which need no cast and no setting."""
    match node:
        case AttributeNode(name=name):
            return names[name]
        case ConstantNode(literal=literal) if literal.type != TIMESTAMP or is_utc:
            return literal
        case CallNode(function=function, arguments=arguments) if function in _COMPARISONS | _LOGIC:
            parts = [_tree(argument, names, is_utc=is_utc) for argument in arguments]
            if function in _COMPARISONS and not _are_alike(parts):
                raise _NotTranslatedError
            return build.call(function, parts)
        case _:
            raise _NotTranslatedError


def _are_alike(parts: list[Expression]) -> bool:
    types = {part.type for part in parts if not (isinstance(part, Literal) and part.value is None)}
    return len(types) <= 1
