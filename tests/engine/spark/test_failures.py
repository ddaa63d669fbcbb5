"""Spark's failures: the error that each becomes, and the part of its message that is kept."""

import logging

import pytest
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.model import Append, FileSource
from engine.commands.sql import parse_statement
from engine.errors import (
    BadRowsError,
    DataFileError,
    DataFileMissingError,
    EngineError,
    FileMissingError,
    PathOutsideRootError,
    StorageError,
)
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.types import LONG, StructField, StructType
from engine.spark.failures import (
    SPARK_ERRORS,
    InvalidValueError,
    SparkJobError,
    SparkLostError,
    SparkMemoryError,
    causes_of,
    spark_failure,
    translate_spark_errors,
)
from engine.table import DeltaTable
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BY_SPARK = RunOptions(in_process_bytes=0)
HERE = "/lake/orders"
SIGNATURE = (
    "The request signature we calculated does not match the signature you provided. Check your key"
    " and signing method. (Service: S3, Status Code: 403, Request ID: 1)"
)


@pytest.fixture
def throw(spark):
    """Have Java throw an exception with the named causes, outermost first; return what Python caught."""

    def throw(*links):
        java = None
        for kind, text in reversed(links):
            made = getattr(spark.sparkContext._jvm, kind)(text)
            java = made if java is None else made.initCause(java)
        future = spark.sparkContext._jvm.java.util.concurrent.CompletableFuture()
        future.completeExceptionally(java)
        with pytest.raises(SPARK_ERRORS) as caught:
            future.get()
        return caught.value

    return throw


def _one_row(spark):
    return spark.range(1, numPartitions=1)


def _fail_in_python(spark, error):
    def task(batches):
        raise error

    with pytest.raises(SPARK_ERRORS) as caught:
        _one_row(spark).mapInArrow(task, "id long").collect()
    return spark_failure(caught.value, HERE)


def test_the_chain_of_causes_is_walked_from_the_outermost_to_the_root(throw):
    error = throw(
        ("java.lang.RuntimeException", "outer"),
        ("java.io.IOException", "middle"),
        ("java.lang.IllegalStateException", "root"),
    )
    assert [str(cause) for cause in causes_of(error)][1:] == [
        "java.lang.RuntimeException: outer",
        "java.io.IOException: middle",
        "java.lang.IllegalStateException: root",
    ]


def test_a_wrong_secret_is_reported_in_the_words_of_the_store(throw, caplog):
    error = throw(
        ("java.nio.file.AccessDeniedException", "s3a://b/orders: getFileStatus on s3a://b/orders"),
        ("java.io.IOException", SIGNATURE),
    )
    with caplog.at_level(logging.ERROR):
        failure = spark_failure(error, HERE)
    assert isinstance(failure, StorageError)
    assert "The store of /lake/orders refused Spark" in str(failure)
    assert SIGNATURE in str(failure)
    assert "credentials" in failure.remedy
    assert failure.facts()["causes"][-1] == f"java.io.IOException: {SIGNATURE}"
    assert "Caused by: java.io.IOException: The request signature" in caplog.text
    assert "at java.base/" in caplog.text


def test_an_unreachable_store_has_another_error_than_one_that_refuses(throw):
    failure = spark_failure(throw(("java.net.ConnectException", "Connection refused")), HERE)
    assert isinstance(failure, StorageError)
    assert "cannot be reached" in str(failure)


def test_an_unknown_cause_survives_in_the_message(throw):
    failure = spark_failure(
        throw(
            ("java.lang.RuntimeException", "the query failed"),
            ("java.lang.IllegalStateException", "x" * 5000),
        ),
        HERE,
    )
    assert type(failure) is SparkJobError
    assert "the query failed. Caused by: xxx" in str(failure)
    assert len(str(failure)) < 1500
    assert all(len(fact) <= 1000 for fact in failure.facts()["causes"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("java.lang.RuntimeException", "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"),
        ("java.lang.RuntimeException", "Job aborted due to stage failure: ExecutorLostFailure (1)"),
        ("java.lang.IllegalStateException", "Cannot call methods on a stopped SparkContext."),
    ],
)
def test_a_lost_executor_or_context_is_the_trouble_of_the_machine(throw, kind, text):
    assert isinstance(spark_failure(throw((kind, text)), HERE), SparkLostError)


@pytest.mark.parametrize(
    ("kind", "text", "error", "said"),
    [
        ("java.lang.OutOfMemoryError", "Java heap space", SparkMemoryError, "ran out of memory"),
        ("java.io.IOException", "No space left on device", StorageError, "is full"),
        (
            "java.lang.RuntimeException",
            "[MALFORMED_CSV_RECORD] Malformed CSV record: a,b",
            BadRowsError,
            "cannot be read",
        ),
    ],
)
def test_faults_that_a_person_can_fix_have_their_own_code(throw, kind, text, error, said):
    outermost = ("java.lang.RuntimeException", "Job aborted due to stage failure: Task 0 failed")
    failure = spark_failure(throw(outermost, (kind, text)), HERE)
    assert type(failure) is error
    assert said in str(failure)
    assert failure.remedy


def test_a_lost_connection_to_a_jvm_is_a_fault_of_the_machine():
    with pytest.raises(SparkLostError), translate_spark_errors(HERE):
        raise ConnectionRefusedError(111, "Connection refused")


def test_a_value_that_reads_like_another_failure_is_a_value(spark):
    said = F.lit("Access Denied: 403 Forbidden, Permission denied").cast("long")
    with pytest.raises(InvalidValueError, match="cannot be cast"), translate_spark_errors(HERE):
        _one_row(spark).select(said).collect()


@pytest.mark.parametrize(
    "expression",
    [
        "element_at(array(1), int(id) + 5)",
        "element_at(array(1), int(id))",
        "map('a', 1, substr('a', 1, int(id) + 1), 2)",
        "map(if(id = 0, NULL, 'a'), 1)",
    ],
)
def test_a_place_or_key_that_a_collection_cannot_have_is_a_value(spark, expression):
    with pytest.raises(InvalidValueError, match="cannot be computed"), translate_spark_errors(HERE):
        _one_row(spark).select(F.expr(expression)).collect()


@pytest.mark.parametrize("error", [FileMissingError("gone"), PathOutsideRootError("out", "in")])
def test_an_error_of_the_engine_on_an_executor_keeps_its_class(spark, error):
    failure = _fail_in_python(spark, error)
    assert type(failure) is type(error)
    assert str(failure) == str(error)


def test_a_package_that_executors_lack_leads_to_the_setting_that_names_their_python(spark):
    failure = _fail_in_python(spark, ModuleNotFoundError("No module named 'pyarrow'"))
    assert type(failure) is SparkJobError
    assert "No module named 'pyarrow'" in str(failure)
    assert "PYSPARK_PYTHON" in failure.remedy


def test_another_error_in_python_on_an_executor_is_named_without_its_traceback(spark):
    failure = _fail_in_python(spark, LookupError("first line\nsecond line"))
    assert type(failure) is SparkJobError
    assert "LookupError: first line second line" in str(failure)
    assert "Traceback" not in str(failure)


@pytest.fixture
def three_files(spark, tmp_path):
    schema = StructType((StructField("id", LONG),))
    table = DeltaTable.create(str(tmp_path / "a table"), schema)
    for _ in range(3):
        run(parse_statement("INSERT INTO t VALUES (1)"), table, spark)
    return table


STATEMENTS = [
    "UPDATE t SET id = id + 10 WHERE id >= 0",
    "DELETE FROM t WHERE id % 7 = 1",
    "INSERT INTO t SELECT id + 10 FROM t",
    "INSERT INTO t SELECT max(id) AS id FROM t",
    "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 5",
    "OPTIMIZE t",
]


@pytest.mark.parametrize("statement", one_in(2, STATEMENTS))
def test_a_missing_data_file_has_its_own_code_and_its_name(spark, three_files, statement):
    gone = three_files.snapshot().add_files()[1].path
    three_files.store.delete(gone)
    with pytest.raises(DataFileMissingError) as caught:
        run(parse_statement(statement), three_files, spark, BY_SPARK, resolve=lambda _: three_files)
    assert caught.value.code == "DELTA_FILE_NOT_FOUND_DETAILED"
    assert f"The data file {gone} of {three_files.uri} is missing." in str(caught.value)
    assert "estore the file" in str(caught.value)
    assert three_files.version() == 3


@pytest.mark.parametrize("statement", ["UPDATE t SET id = id + 10 WHERE id >= 0", "OPTIMIZE t"])
def test_a_damaged_data_file_has_another_error_than_a_missing_one(spark, three_files, statement):
    damaged = three_files.snapshot().add_files()[1].path
    three_files.store.put(damaged, b"this is no Parquet file")
    with pytest.raises(DataFileError, match="cannot be read") as caught:
        run(parse_statement(statement), three_files, spark, BY_SPARK)
    assert not isinstance(caught.value, DataFileMissingError)
    assert damaged in str(caught.value)


def test_a_source_that_is_no_parquet_file_is_named_with_its_cause(spark, three_files, tmp_path):
    source = tmp_path / "rows.parquet"
    source.write_bytes(b"this is no Parquet file")
    with pytest.raises(EngineError, match="is not a Parquet file") as caught:
        run(Append(source=FileSource(str(source), "parquet")), three_files, spark)
    assert "rows.parquet" in str(caught.value)
    assert caught.value.facts()["causes"]
