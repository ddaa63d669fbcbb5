"""Conflict errors as people paste them: by writer, by wrapping, complete and truncated."""

import json

import pytest

from engine.conflicts.explain.exceptions import SUBCLASS_MEANINGS
from engine.errors import RequestError
from lakeui.conflicts.reports.links import LinkedReport
from lakeui.conflicts.reports.messages import MAX_REPORT_CHARS, parse_report
from lakeui.conflicts.reports.signs import KINDS
from lakeui.conflicts.reports.verdict import verdict_of

COMMIT = (
    '{"timestamp":1730550000123,"userName":"ann@example.org","operation":"DELETE",'
    '"operationParameters":{"predicate":["(id = 1)"]},"readVersion":6,'
    '"isolationLevel":"WriteSerializable","isBlindAppend":false,"operationMetrics":'
    '{"numRemovedFiles":"1"},"engineInfo":"Apache-Spark/3.5.1 Delta-Lake/3.2.0",'
    '"txnId":"0d9c7e46-1111-2222-3333-444455556666"}'
)
DOCS = "\nRefer to https://docs.delta.io/latest/concurrency-control.html for more details."
SPARK = {
    "ConcurrentAppendException": "Files were added to partition [date=2026-11-02] by a concurrent "
    "update. Please try the operation again.",
    "ConcurrentDeleteReadException": "This transaction attempted to read one or more files that "
    "were deleted (for example part-00000-aa.snappy.parquet in partition [date=2026-11-02]) by a "
    "concurrent update. Please try the operation again.",
    "ConcurrentDeleteDeleteException": "This transaction attempted to delete one or more files "
    "that were deleted (for example part-00001-bb.snappy.parquet) by a concurrent update. Please "
    "try the operation again.",
    "MetadataChangedException": "The metadata of the Delta table has been changed by a concurrent "
    "update. Please try the operation again.",
    "ProtocolChangedException": "The protocol version of the Delta table has been changed by a "
    "concurrent update. This happens when multiple writers are writing to an empty directory.",
    "ConcurrentTransactionException": "This error occurs when multiple streaming queries are using "
    "the same checkpoint to write into this table. Did you run multiple instances of the same "
    "streaming query at the same time?",
    "ConcurrentWriteException": "A concurrent transaction has written new data since the current "
    "transaction read the table. Please try the operation again.",
}


def spark(exception, commit=COMMIT):
    return (
        f"io.delta.exceptions.{exception}: {SPARK[exception]}\nConflicting commit: {commit}{DOCS}"
    )


NEW = {
    "DELTA_CONCURRENT_APPEND": "Transaction conflict detected. A concurrent OPTIMIZE added data to "
    "table main.sales.orders committed at version 830.",
    "DELTA_CONCURRENT_DELETE_READ": "Transaction conflict detected, a concurrent OPTIMIZE deleted "
    "data from table main.sales.orders (committed at version 830) that this transaction read.",
    "DELTA_CONCURRENT_DELETE_DELETE": "Transaction conflict detected, a concurrent OPTIMIZE deleted "
    "data from table main.sales.orders (committed at version 830) that this transaction attempted "
    "to delete.",
}
RUST = {
    "DELTA_CONCURRENT_APPEND": "Commit failed: a concurrent transactions added new data.\nHelp: "
    "This transaction's query must be rerun to include the new data.",
    "DELTA_CONCURRENT_DELETE_READ": "Commit failed: a concurrent transaction deleted data this "
    "operation read.\nHelp: This transaction's query must be rerun to exclude the removed data.",
    "DELTA_CONCURRENT_DELETE_DELETE": "Commit failed: a concurrent transaction deleted the same "
    "data your transaction deletes.\nHelp: you should retry this write operation.",
    "DELTA_METADATA_CHANGED": "Metadata changed since last commit.",
    "DELTA_PROTOCOL_CHANGED": "Protocol changed since last commit: (1, 2)",
    "DELTA_CONCURRENT_TRANSACTION": "Concurrent transaction failed.",
}
OURS = {
    "DELTA_CONCURRENT_APPEND": "Version 7 (DELETE) of sales.orders added 3 files in "
    "date=2026-11-02, date=2026-11-03 that this UPDATE, reading version 5, should have seen.",
    "DELTA_CONCURRENT_DELETE_READ": "Version 7 (DELETE) of sales.orders rewrote 1 file that this "
    "UPDATE, reading version 5, had read.",
    "DELTA_CONCURRENT_DELETE_DELETE": "Version 7 (OPTIMIZE) of sales.orders removed 2 files that "
    "this OPTIMIZE, reading version 5, removes too.",
    "DELTA_METADATA_CHANGED": "Version 7 (SET TBLPROPERTIES) of sales.orders changed the metadata "
    "of the table after this UPDATE, reading version 5, began.",
}


def parse_conflict(text):
    conflict = parse_report(text).conflict
    assert conflict is not None, parse_report(text).recognized
    return conflict


@pytest.mark.parametrize("exception", SPARK)
def test_delta_sparks_old_messages_are_known_with_their_winner(exception):
    conflict = parse_conflict(spark(exception))
    assert conflict.exception == exception
    assert conflict.source == "delta-spark"
    assert conflict.winner.txn_id == "0d9c7e46-1111-2222-3333-444455556666"
    assert (conflict.winner.operation, conflict.winner.read_version) == ("DELETE", 6)
    assert conflict.winner.timestamp_ms == 1730550000123
    assert conflict.winner.user == "ann@example.org"
    assert conflict.winner.is_blind_append is False
    assert conflict.winner.predicate == '["(id = 1)"]'
    assert conflict.winning_version is None, "the winning commit's read version is not its version"


@pytest.mark.parametrize("exception", SPARK)
def test_the_sentence_alone_is_enough(exception):
    assert parse_conflict(SPARK[exception]).exception == exception


@pytest.mark.parametrize("exception", SPARK)
def test_the_class_name_alone_is_enough(exception):
    conflict = parse_conflict(f"Job aborted: {exception}")
    assert (conflict.exception, conflict.winner) == (exception, None)


def test_partition_and_file_are_read_from_the_sentence():
    append, delete = (
        parse_conflict(spark(f"Concurrent{name}Exception")) for name in ("Append", "DeleteRead")
    )
    assert append.partitions == ("date=2026-11-02",)
    assert delete.partitions == ("date=2026-11-02",)
    assert delete.file == "part-00000-aa.snappy.parquet"


def test_several_partitions_are_all_read():
    text = "Files were added to partitions [a=1, b=x], [a=2, b=y] by a concurrent update."
    assert parse_conflict(text).partitions == ("a=1, b=x", "a=2, b=y")


def test_the_root_of_the_table_is_no_partition():
    assert (
        parse_conflict(
            "Files were added to the root of the table by a concurrent update."
        ).partitions
        == ()
    )


@pytest.mark.parametrize("code", NEW)
@pytest.mark.parametrize("subclass", SUBCLASS_MEANINGS)
def test_error_classes_are_known_with_sub_class_table_and_version(code, subclass):
    conflict = parse_conflict(f"[{code}.{subclass}] {NEW[code]} Please retry. SQLSTATE: 2D521")
    assert (conflict.code, conflict.subclass) == (code, subclass)
    assert (conflict.table, conflict.winning_version) == ("main.sales.orders", 830)
    assert conflict.winner_operation == "OPTIMIZE"
    assert conflict.source == "Databricks"
    assert SUBCLASS_MEANINGS[subclass] in conflict.meaning


@pytest.mark.parametrize("code", NEW)
def test_the_new_sentence_alone_is_enough(code):
    assert (parse_conflict(NEW[code]).code, parse_conflict(NEW[code]).winning_version) == (
        code,
        830,
    )


@pytest.mark.parametrize("code", RUST)
@pytest.mark.parametrize(
    "wrap",
    [
        "{}",
        "_internal.CommitFailedError: Failed to commit transaction: {}",
        "CommitFailedError({!r})",
    ],
)
def test_delta_rs_messages_are_known(code, wrap):
    conflict = parse_conflict(wrap.format(RUST[code]))
    assert (conflict.code, conflict.winner, conflict.table) == (code, None, None)
    assert conflict.source == "delta-rs"


@pytest.mark.parametrize("code", OURS)
def test_this_engines_messages_are_known_with_both_versions(code):
    conflict = parse_conflict(f"{OURS[code]} Nothing was written. Retry it.")
    assert (conflict.code, conflict.table) == (code, "sales.orders")
    assert (conflict.winning_version, conflict.read_version) == (7, 5)
    assert conflict.source == "this engine"


def test_this_engines_partitions_are_read():
    assert parse_conflict(OURS["DELTA_CONCURRENT_APPEND"]).partitions == (
        "date=2026-11-02",
        "date=2026-11-03",
    )


def test_databricks_old_messages_carry_the_winners_own_version():
    commit = (
        '{"version":41,"timestamp":1700000000000,"userId":"1","userName":"a@b.c","operation":'
        '"SET TBLPROPERTIES","operationParameters":{"properties":{"delta.autoOptimize":"true"}},'
        '"notebook":{"notebookId":"9"},"readVersion":40,"isolationLevel":"SnapshotIsolation"}'
    )
    text = (
        "Error in SQL statement: ExecutionException: com.databricks.sql.transaction.tahoe."
        f"MetadataChangedException: {SPARK['MetadataChangedException']} Conflicting commit: {commit}"
    )
    conflict = parse_conflict(text)
    assert (conflict.winning_version, conflict.winner_operation) == (41, "SET TBLPROPERTIES")
    assert conflict.source == "Databricks"


@pytest.mark.parametrize(
    "parameters",
    [
        "{}",
        '{"mode":Append}',
        '{"mode":Append,"partitionBy":[]}',
        '{"mode":"Overwrite","predicate":"true"}',
        '{"predicate":["(id#1 = 5)"]}',
        '{"predicate":["(name = \\"}\\")"],"matchedPredicates":[{"actionType":"update"}]}',
        '{"version":3,"timestamp":null}',
        '{"operation":"not this one","txnId":"nor this"}',
        '{"properties":{"delta.isolationLevel":"Serializable"}}',
    ],
)
def test_parameters_that_are_no_json_do_not_hide_the_winner(parameters):
    commit = (
        f'{{"timestamp":17,"operation":"WRITE","operationParameters":{parameters},"readVersion":4,'
        '"isBlindAppend":true,"txnId":"t-1"}'
    )
    winner = parse_conflict(spark("ConcurrentAppendException", commit)).winner
    assert (winner.operation, winner.read_version, winner.txn_id) == ("WRITE", 4, "t-1")
    assert (winner.version, winner.isolation_level) == (None, None)
    assert winner.is_blind_append is True
    assert winner.is_whole


@pytest.mark.parametrize("kept", range(40, len(COMMIT), 23))
def test_a_message_cut_anywhere_yields_its_remaining_facts(kept):
    conflict = parse_conflict(spark("ConcurrentAppendException", COMMIT)[: 170 + kept])
    assert conflict.exception == "ConcurrentAppendException"
    assert conflict.partitions == ("date=2026-11-02",)
    if conflict.winner and conflict.winner.timestamp_ms:
        assert str(conflict.winner.timestamp_ms) in "1730550000123"
        assert not conflict.winner.is_whole


JAVA = "\tat org.apache.spark.sql.delta.ConflictChecker.checkConflicts(ConflictChecker.scala:305)\n"
WRAPPINGS = {
    "Py4J": "py4j.protocol.Py4JJavaError: An error occurred while calling o91.execute.\n: {}\n"
    + JAVA,
    "PySpark's own class": 'Traceback (most recent call last):\n  File "job.py", line 3\n'
    "delta.exceptions.{}\n\nJVM stacktrace:\n" + JAVA,
    "a Spark log": "24/10/22 10:00:01 ERROR TaskRunner: failed\n{}\n24/10/22 10:00:02 INFO Utils: ok",
    "a cause": "org.apache.spark.SparkException: Job aborted.\nCaused by: {}\n" + JAVA * 30,
    "a streaming query": "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] "
    "Query [id = 1, runId = 2] terminated with exception: {} SQLSTATE: XXKST",
    "a quoted log": "{!r}",
    "dbt": "Database Error in model orders (models/orders.sql)\n  {}",
    "a table of pipes": "| {}\n| at org.apache.spark",
    "noise before and after": "x" * 5000 + "\n{}\n" + "y" * 5000,
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("exception", SPARK)
def test_noise_around_it_hides_nothing(wrapping, exception):
    conflict = parse_conflict(WRAPPINGS[wrapping].format(spark(exception)))
    assert conflict.exception == exception
    assert conflict.winner.txn_id == "0d9c7e46-1111-2222-3333-444455556666"


def test_a_json_log_line_is_read_through_its_escapes():
    line = json.dumps({"level": "ERROR", "msg": spark("ConcurrentAppendException")})
    assert parse_conflict(line).winner.predicate == '["(id = 1)"]'
    twice = json.dumps({"log": line})
    assert parse_conflict(twice).winner.operation == "DELETE"


def test_lines_wrapped_by_a_terminal_are_put_together():
    text = spark("ConcurrentDeleteReadException").replace(" ", "\n      ")
    assert parse_conflict(text).file == "part-00000-aa.snappy.parquet"


def test_windows_line_ends_change_nothing():
    text = spark("ConcurrentAppendException").replace("\n", "\r\n")
    assert parse_conflict(text).winner.operation == "DELETE"


def test_a_lost_race_for_versions_is_known_with_where_it_began():
    text = (
        "java.lang.IllegalStateException: This commit has failed as it has been tried 10000001 "
        "times but did not succeed.\nThis can be caused by the Delta table being committed "
        "continuously by many concurrent\ncommits.\n\nCommit started at version: 17\nCommit failed "
        "at version: 99\nNumber of actions attempted to commit: 3"
    )
    conflict = parse_conflict(text)
    assert (conflict.code, conflict.sqlstate) == ("DELTA_MAX_COMMIT_RETRIES_EXCEEDED", "40000")
    assert conflict.read_version == 17


def test_delta_kernels_message_is_known():
    text = (
        "io.delta.kernel.exceptions.ConcurrentWriteException: Transaction has encountered a "
        "conflict and can not be committed. Query needs to be re-executed using the latest version"
    )
    assert (parse_conflict(text).code, parse_conflict(text).source) == (
        "DELTA_CONCURRENT_WRITE",
        "Delta Kernel",
    )


def test_the_first_of_several_is_explained_and_the_others_counted():
    other = COMMIT.replace("0d9c7e46", "ffffffff")
    text = spark("ConcurrentAppendException") + "\n" + spark("MetadataChangedException", other)
    report = parse_report(text)
    assert report.conflict.exception == "ConcurrentAppendException"
    assert report.conflict.winner.txn_id.startswith("0d9c7e46")
    assert report.more == 1


def test_a_conflict_reported_twice_is_one():
    text = spark("ConcurrentAppendException")
    assert parse_report(f"{text}\nCaused by: {text}").more == 0


@pytest.mark.parametrize(
    ("text", "recognized"),
    [
        ("hello", []),
        ("[DELTA_TABLE_NOT_FOUND] Delta table doesn't exist", ["DELTA_TABLE_NOT_FOUND"]),
        ("java.io.FileNotFoundException: x", ["java.io.FileNotFoundException"]),
        ("Traceback (most recent call last):\n  KeyError: 1", ["Python traceback"]),
        ("24/10/22 10:00:01 INFO Utils: ok", ["Spark log"]),
        ("failed with SQLSTATE: 2D521", ["2D521"]),
        ('{"timestamp":1,"operation":"WRITE"}', ["commit's information"]),
        ("FileAlreadyExistsException at s3://b/_delta_log", []),
        ("Cannot commit: Base metadata location is not same", ["Apache Iceberg"]),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", ["one checkpoint"]),
        ("DeltaError: Generic DeltaTable error: Version mismatch", ["an old snapshot"]),
    ],
)
def test_errors_other_than_conflicts_are_named(text, recognized):
    report = parse_report(text)
    assert report.conflict is None
    told = "; ".join(report.recognized)
    assert all(words in told for words in recognized)
    assert bool(told) == bool(recognized)


@pytest.mark.parametrize("text", ["", "  \n ", "x" * (MAX_REPORT_CHARS + 1)])
def test_an_empty_and_an_oversized_report_are_refused(text):
    with pytest.raises(RequestError) as refused:
        parse_report(text)
    assert refused.value.field == "text"


@pytest.mark.parametrize(
    "text",
    [
        "files were added to " * 10_000,
        "a concurrent " * 20_000,
        "Conflicting commit: {" * 10_000 + "ConcurrentAppendException",
        "ConcurrentAppendException Conflicting commit: " + "{" * 230_000,
        'ConcurrentAppendException Conflicting commit: {"' + "\\" * 230_000,
        "ConcurrentAppendException partition " + "[" * 230_000,
        "version 1 (" * 20_000,
        "a.b." * 60_000,
        '\\"' * 100_000,
    ],
)
@pytest.mark.timeout(10)
def test_hostile_text_ends_soon(text):
    conflict = parse_report(text).conflict
    assert conflict is None or conflict.exception == "ConcurrentAppendException"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_conflict_has_remedies_and_none_raises_the_level(kind):
    remedies = parse_conflict(kind.code).remedies
    assert remedies
    assert not any("Serializable" in remedy.action for remedy in remedies)


def test_a_remedy_fits_the_rows_that_overlapped():
    by_rows = parse_conflict("[DELTA_CONCURRENT_APPEND.ROW_LEVEL_CHANGES]").remedies
    in_partition = parse_conflict(spark("ConcurrentAppendException")).remedies
    assert "cannot select the same rows" in by_rows[1].action
    assert "partitions in its condition" in in_partition[1].action
    assert not parse_conflict("ConcurrentTransactionException").can_retry


@pytest.mark.parametrize("subclass", SUBCLASS_MEANINGS)
@pytest.mark.parametrize("code", ["DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_DELETE_READ"])
def test_a_sub_class_that_was_parsed_says_why_files_decided(code, subclass):
    text = f"[{code}.{subclass}] Transaction conflict detected."
    verdict = verdict_of(LinkedReport(parse_report(text)))
    silent = verdict_of(LinkedReport(parse_report(f"[{code}] Transaction conflict detected.")))
    assert verdict is not None
    assert silent is not None
    assert silent.decided_why == "the message gives no reason"
    assert verdict.decided_why != silent.decided_why or subclass == "CONFLICTING_COMMIT"


def test_the_facts_are_json():
    facts = parse_conflict(spark("ConcurrentAppendException")).as_dict()
    assert json.loads(json.dumps(facts))["winner"]["operation"] == "DELETE"


def test_a_table_is_found_by_any_of_its_names():
    said = (
        "Transaction conflict detected. A concurrent MERGE added data to partition [country=DE] in "
    )
    text = f"[DELTA_CONCURRENT_APPEND] {said}the table sales.orders committed at version 10."
    reported = parse_report(text).conflict
    assert (reported.table, reported.winning_version) == ("sales.orders", 10)
