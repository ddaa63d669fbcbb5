"""CONVERT TO DELTA: from callers' arguments to the engine's conversion."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from engine.delta.creation import session_defaults
from engine.delta.exceptions import delta_errors
from engine.delta.handle import Handle
from engine.delta.names import path_in, reachable_roots, storage_options
from engine.errors import RequestError
from engine.operations.define.convert import Conversion, convert
from engine.operations.execution import Execution
from engine.operations.run_options import RunOptions
from engine.reports.transactions import report_transaction
from engine.schema.types import StructType, type_from_json
from engine.spark.session import check_is_spark, engine_session
from engine.storage.uri import normalize_uri, open_store
from engine.table import DeltaTable


def convert_files(
    spark: SparkSession, identifier: str, partitions: str | T.StructType | None
) -> Handle:
    """Convert the files of parquet.`/path` to a table.

    Raises:
        RequestError: the identifier is not such a path.
        ParseException: the partition columns are not DDL.
    """
    path = path_in(identifier, "parquet") or path_in(identifier)
    if path is None:
        what = f"{identifier} is not a path of Parquet files."
        raise RequestError(what, "Write parquet.`/path`.", field="identifier")
    uri = normalize_uri(path)
    options = storage_options(spark, uri, {})
    store = open_store(uri, options)
    table = DeltaTable(store, storage_options=options, allowed_roots=reachable_roots(uri))
    conversion = Conversion(_schema(partitions), session_defaults(spark))
    with delta_errors(), report_transaction(None, uri) as observer:
        check_is_spark(spark)
        execution = Execution(table, engine_session(spark), RunOptions(observer=observer))
        with execution.translate_spark_errors():
            convert(conversion, execution)
    return Handle(spark, table)


def _schema(given: str | T.StructType | None) -> StructType:
    if given is None:
        return StructType()
    kind = T._parse_datatype_string(given) if isinstance(given, str) else given
    parsed = type_from_json(json.loads(kind.json()))
    return parsed if isinstance(parsed, StructType) else StructType()
