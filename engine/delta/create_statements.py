"""CREATE TABLE, with and without rows, and REPLACE TABLE: from Spark's plan to the engine's table."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from engine.commands.column_sql import (
    COMMENT,
    DEFAULT,
    GENERATION,
    IDENTITY_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)
from engine.commands.model import DataFrameSource
from engine.commands.statement_cursor import StatementCursor
from engine.delta.creation import (
    IDENTITY_MARK,
    ROW_HISTORY,
    CollationError,
    NewTableDefinition,
    create_table,
)
from engine.delta.exceptions import delta_errors
from engine.delta.names import PROVIDERS, find_delta, name_sql, open_table
from engine.delta.result_frames import nothing
from engine.delta.statement_views import StatementNotRoutedError
from engine.errors import RequestError, StatementError
from engine.expressions.type_grammar import read_type
from engine.protocol.properties import CONSTRAINT_PREFIX
from engine.schema.arrow import UnsupportedTypeError
from engine.schema.column_paths import render_column_path
from engine.schema.text_lengths import declare_type
from engine.schema.types import StructField, StructType, type_from_json
from engine.schema.write_errors import NamedTwiceError
from engine.spark.columns import from_spark_schema
from engine.spark.jvm import column_of, frame_over, iter_seq
from engine.spark.session import bypass_routing
from engine.spark.session_catalog import SessionTable, find_catalog, find_permanent_view
from engine.spark.statement_plan import Java, kind_of, map_of, optional, texts_of

LIKE_STATEMENT = "CreateTableLike"
CREATE_STATEMENTS = frozenset(
    {
        "CreateTable",
        "CreateTableAsSelect",
        "ReplaceTable",
        "ReplaceTableAsSelect",
        LIKE_STATEMENT,
    }
)
VIEW_STATEMENTS = frozenset({"AlterViewAs", "CreateView", "CreateViewCommand"})
_GEOMETRY = re.compile(r"\b(GEOMETRY|GEOGRAPHY)\b")
_COLLATION = re.compile(r"\bCOLLATE\b")
_DEFAULT_PROVIDER = "spark.sql.sources.default"


class AllVoidError(RequestError, code="DELTA_CANNOT_WRITE_EMPTY_SCHEMA"):
    """All columns of a new table's rows have the type VOID."""


class GeometryError(UnsupportedTypeError, code="DELTA_GEOSPATIAL_NOT_SUPPORTED"):
    """A new table is to have a column of geometries or geographies."""


class TransformPartitionError(RequestError, code="DELTA_OPERATION_NOT_ALLOWED_DETAIL"):
    """A table is to be partitioned by buckets or by a function."""


def makes_delta(spark: SparkSession, plan: Java) -> bool:
    """Whether a statement creates a Delta table; a replacement keeps the format if it names none."""
    if kind_of(plan.name()) != "UnresolvedIdentifier":
        return False
    parts = texts_of(plan.name().nameParts())
    given = optional(plan.tableSpec().provider())
    provider = str(given) if given is not None else spark.conf.get(_DEFAULT_PROVIDER, "") or ""
    on_path = len(parts) == 2 and parts[0].lower() in PROVIDERS and "/" in parts[1]
    if given is None and len(parts) == 3 and find_catalog(spark, parts[0]) is not None:
        return True
    hive = given is None and optional(plan.tableSpec().serde()) is not None
    if given is None and not hive and kind_of(plan).startswith("Replace"):
        on_path = on_path or find_delta(spark, parts) is not None
    return (provider.lower() in PROVIDERS and not hive) or on_path


def create(spark: SparkSession, plan: Java, *, reads_anew: bool) -> DataFrame:
    """Make the table, and its name in the session's catalog; conflicts are the caller's to retry."""
    kind = kind_of(plan)
    spec = plan.tableSpec()
    replaces = kind.startswith("Replace")
    with_rows = kind.endswith("AsSelect")
    partitions, clusters = _layout(plan)
    options = _options(spark, spec)
    location = optional(spec.location()) or options.get("path", "")
    properties = {
        **{key: value for key, value in options.items() if key.startswith("delta.")},
        **{str(key): str(value) for key, value in map_of(spark, spec.properties()).items()},
        **_checks(spec),
    }
    rows = frame_over(plan.query(), spark) if with_rows else None
    if rows is not None:
        _check_columns(rows)
    comment = optional(spec.comment())
    definition = NewTableDefinition(
        name=name_sql(texts_of(plan.name().nameParts())),
        location=str(location),
        columns=() if with_rows else tuple(map(_field, iter_seq(plan.columns()))),
        partition_columns=partitions,
        clustering_columns=clusters,
        properties=properties,
        description="" if comment is None else str(comment),
        if_not_exists=False if replaces else bool(plan.ignoreIfExists()),
        replace=replaces,
        must_exist=replaces and not plan.orCreate(),
        source=None if rows is None else DataFrameSource(rows, is_made_anew=reads_anew),
        retries=0,
    )
    create_table(spark, definition)
    return nothing(spark)


def _check_columns(rows: DataFrame) -> None:
    """Refuse a query whose columns cannot be those of a table."""
    names = [name.lower() for name in rows.columns]
    if len(set(names)) < len(names):
        what = f"The query has two columns of one name: {', '.join(rows.columns)}."
        raise NamedTwiceError(what, "Give each column its own name.")
    if all(isinstance(column.dataType, spark_types.NullType) for column in rows.schema):
        what = "All columns of the query have the type VOID, so the table would have no rows."
        raise AllVoidError(what, "Cast a column.", field="schema")


def create_by_catalog(
    spark: SparkSession,
    name: str,
    path: str | None,
    schema: spark_types.StructType | None,
    description: str | None,
    options: Mapping[str, str],
) -> DataFrame:
    """Run `spark.catalog.createTable` for format delta, and return the table's rows."""
    columns = () if schema is None else from_spark_schema(schema).fields
    definition = NewTableDefinition(
        name=name,
        location=path or options.get("path", ""),
        columns=tuple(columns),
        properties={key: text for key, text in options.items() if key.startswith("delta.")},
        description=description or "",
        retries=0,
    )
    with bypass_routing(), delta_errors():
        create_table(spark, definition)
    return spark.table(name)


def create_like(spark: SparkSession, plan: Java) -> DataFrame | None:
    """Run CREATE TABLE t LIKE s: an empty table with another's columns, layout and properties.

    Return None if neither is a Delta table.

    Raises:
        StatementNotRoutedError: a table of another format is to be created like a Delta table.
    """
    parts = texts_of(plan.source().multipartIdentifier())
    place, given = find_delta(spark, parts), optional(plan.provider())
    is_delta = str(given).lower() in PROVIDERS if given is not None else place is not None
    if place is None and not is_delta:
        return None
    if not is_delta:
        what = f"A table of the format {given} cannot be created LIKE a Delta table."
        raise StatementNotRoutedError(what, "Use CREATE TABLE … AS SELECT … LIMIT 0.", field="sql")
    location = optional(plan.location())
    properties = {str(key): str(value) for key, value in map_of(spark, plan.properties()).items()}
    name = name_sql(parts)
    definition = (
        _define_like_delta(spark, place, name) if place else _define_like_other(spark, name)
    )
    create_table(
        spark,
        replace(
            definition,
            name=name_sql(texts_of(plan.name().nameParts())),
            location="" if location is None else str(location),
            properties={**definition.properties, **properties},
            if_not_exists=bool(plan.ifNotExists()),
            retries=0,
        ),
    )
    return nothing(spark)


def _define_like_delta(spark: SparkSession, place: SessionTable, name: str) -> NewTableDefinition:
    snapshot = open_table(spark, place.location, name=name).snapshot()
    columns = tuple(
        replace(field, metadata={k: v for k, v in field.metadata.items() if k != IDENTITY_MARK})
        for field in snapshot.schema
    )
    configuration = snapshot.metadata.configuration
    return NewTableDefinition(
        columns=columns,
        partition_columns=tuple(snapshot.partition_columns),
        clustering_columns=tuple(snapshot.clustering_columns),
        properties={k: v for k, v in configuration.items() if not k.startswith(ROW_HISTORY)},
        description=snapshot.metadata.description or "",
    )


def _define_like_other(spark: SparkSession, name: str) -> NewTableDefinition:
    """Return another table's columns only, as delta-spark does."""
    declared = type_from_json(json.loads(spark.table(name).schema.json()))
    return NewTableDefinition(columns=declared.fields if isinstance(declared, StructType) else ())


def make_view(spark: SparkSession, plan: Java) -> DataFrame:
    """Create or alter a view whose query is resolved; Spark stores the text of a permanent one."""
    kind = kind_of(plan)
    if kind == "CreateViewCommand":
        is_global = str(plan.viewType().toString()).startswith("Global")
        columns = [str(pair._1()) for pair in iter_seq(plan.userSpecifiedColumns())]
        name, query, replaces = str(plan.name().table()), plan.plan(), bool(plan.replace())
    else:
        parts = texts_of(plan.child().multipartIdentifier()) if kind == "AlterViewAs" else ()
        if not parts or find_permanent_view(spark, name_sql(parts)) is not None:
            return frame_over(plan, spark)
        is_global, columns = len(parts) > 1, []
        name, query, replaces = parts[-1], plan.query(), True
    frame = frame_over(query, spark)
    if columns:
        frame = frame.toDF(*columns)
    if is_global:
        make = frame.createOrReplaceGlobalTempView if replaces else frame.createGlobalTempView
    else:
        make = frame.createOrReplaceTempView if replaces else frame.createTempView
    make(name)
    return nothing(spark)


def _layout(plan: Java) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the partition columns and the clustering columns."""
    partitions: list[str] = []
    clusters: list[str] = []
    for transform in iter_seq(plan.partitioning()):
        name = str(transform.name())
        references = [".".join(reference.fieldNames()) for reference in transform.references()]
        if name == "identity":
            partitions += references
        elif name in {"cluster_by", "clusterBy"}:
            clusters += [render_column_path(path.fieldNames()) for path in transform.references()]
        else:
            what = f"A Delta table cannot be partitioned by {name}."
            remedy = "Use a column, such as a generated column."
            raise TransformPartitionError(what, remedy, field="sql")
    return tuple(partitions), tuple(clusters)


def _options(spark: SparkSession, spec: Java) -> dict[str, str]:
    options = {}
    for pair in iter_seq(spec.optionExpression().options()):
        row = spark.range(1).select(column_of(pair._2(), spark).cast("string")).first()
        options[str(pair._1())] = "" if row is None or row[0] is None else str(row[0])
    return {"path" if key.lower() == "path" else key: value for key, value in options.items()}


def _checks(spec: Java) -> dict[str, str]:
    """Return CHECK constraints as table properties.

    Raises:
        StatementNotRoutedError: a key, which a Delta table does not keep.
    """
    properties = {}
    for constraint in iter_seq(spec.constraints()):
        if kind_of(constraint) != "CheckConstraint":
            what = "PRIMARY, FOREIGN and UNIQUE keys are not stored in a Delta table's log."
            raise StatementNotRoutedError(what, "Leave them out.", field="sql")
        name = str(constraint.name()).lower()
        properties[f"{CONSTRAINT_PREFIX}{name}"] = str(constraint.condition())
    return properties


def _field(definition: Java) -> StructField:
    """Return a column as the statement defines it."""
    metadata: dict[str, Any] = {}
    for key, text in (
        (COMMENT, definition.comment()),
        (DEFAULT, definition.defaultValue()),
        (GENERATION, definition.generationExpression()),
    ):
        value = optional(text)
        if value is not None:
            metadata[key] = str(value if key == COMMENT else value.originalSQL())
    identity = optional(definition.identityColumnSpec())
    if identity is not None:
        metadata[IDENTITY_START] = int(identity.getStart())
        metadata[IDENTITY_STEP] = int(identity.getStep())
        metadata[IDENTITY_EXPLICIT] = bool(identity.isAllowExplicitInsert())
    text = str(definition.dataType().sql())
    if _COLLATION.search(text):
        raise CollationError(str(definition.name()))
    try:
        declared = read_type(StatementCursor.from_text(text))
    except StatementError as error:
        kind = GeometryError if _GEOMETRY.search(text) else UnsupportedTypeError
        raise kind([f"the type {text} (column {definition.name()})"]) from error
    plain = StructField(str(definition.name()), declared, bool(definition.nullable()), metadata)
    return declare_type(plain, declared)
