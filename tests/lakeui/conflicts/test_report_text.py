"""Messages before they are pasted, and the positions of their facts in the pasted text."""

import html
import json

import pytest

from lakeui.conflicts.reports.messages import parse_report
from lakeui.conflicts.reports.text import plain_text

OLD = (
    "io.delta.exceptions.ConcurrentAppendException: Files were added to partition "
    "[order_date=2026-11-19] by a concurrent update. Please try the operation again.\n"
    'Conflicting commit: {"timestamp":1795141491000,"operation":"MERGE","operationParameters":'
    '{"predicate":"[\\"(t.item_id = s.item_id)\\"]"},"readVersion":2205,"isolationLevel":'
    '"WriteSerializable","isBlindAppend":false,"engineInfo":"Apache-Spark/3.5.1 Delta-Lake/3.2.0",'
    '"txnId":"5d0c4be1-77f2-4a0e-9a8d-30c2c1f5e6aa"}\n'
    "Refer to https://docs.delta.io/latest/concurrency-control.html for more details."
)
NEW = (
    "[DELTA_CONCURRENT_DELETE_READ.ROW_LEVEL_CHANGES] Transaction conflict detected, a concurrent "
    "UPDATE deleted data from table main.sales.orders (committed at version 830) that this "
    "transaction read.\nThe concurrent operation modified the same rows. SQLSTATE: 2D521"
)


def spread(text, width=60):
    """Break the text between words, as a terminal or a logger does."""
    lines, line = [], ""
    for word in text.replace("\n", " ").split(" "):
        if line and len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def prefix_lines(prefix):
    return lambda text: "\n".join(prefix + line for line in ["starting", *spread(text), "done"])


WAYS = {
    "a Spark log before it": lambda t: (
        "26/11/20 02:25:03 ERROR MicroBatchExecution: Query items-upsert [id = 1, runId = 2] "
        f"terminated with error\n{t}"
    ),
    "a Spark log's prefix on every line": prefix_lines("26/11/20 02:25:03 ERROR Executor - "),
    "Airflow": prefix_lines("[2026-11-20, 02:25:03 UTC] {subprocess.py:93} INFO - "),
    "Airflow, newer": prefix_lines("[2026-11-20T02:25:03.123+0000] {local.py:12} ERROR - "),
    "Kubernetes": prefix_lines("2026-11-20T02:25:03.123456789Z stderr F "),
    "Docker Compose": prefix_lines("spark-worker-1  | "),
    "Docker Compose with times": prefix_lines("spark-1  | 2026-11-20 02:25:03,123 ERROR [main] "),
    "GitHub Actions": prefix_lines("2026-11-20T02:25:03.1234567Z "),
    "dbt": prefix_lines("02:25:03  "),
    "an answered mail": prefix_lines("> "),
    "a thread dump's brackets": prefix_lines("2026-11-20 02:25:03.001 [stream-thread-1] WARN "),
    "colors": lambda t: f"\x1b[31m\x1b[1m{t.replace(' ', chr(27) + '[0m ')}\x1b[0m",
    "colors whose escape was lost": lambda t: f"[1;31m{t}[0m",
    "colors as a JSON log writes them": lambda t: json.dumps(f"\x1b[31m{t}\x1b[0m"),
    "Windows line ends": lambda t: "first\r\n" + "\r\n".join(spread(t)),
    "a JSON log": lambda t: json.dumps({"level": "ERROR", "msg": t}),
    "a JSON log in a JSON log": lambda t: json.dumps({"log": json.dumps({"msg": t})}),
    "Gson, which codes = and quotes": lambda t: json.dumps({"m": t})
    .replace("=", "\\u003d").replace("'", "\\u0027"),
    "quotes coded as numbers": lambda t: t.replace('"', "\\u0022"),
    "HTML": lambda t: f"<pre><code>{html.escape(t)}</code></pre>",
    "pytest": prefix_lines("E   "),
    "a comment": prefix_lines("# "),
    "syslog": prefix_lines("Nov 20 02:25:03 node-7 spark[4117]: "),
    "Docker's own files": lambda t: "".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-20T02:25:03.1Z"},
                   separators=(",", ":")) + "\n"
        for line in spread(t)
    ),
    "a cell of a CSV file": lambda t: 'time,text\n1,"' + t.replace('"', '""') + '"\n',
    "a notebook's saved page": lambda t: html.escape(t).replace(
        "Conflict", '<span class="ansi-red-fg">Conflict'
    ).replace("\n", "</span><br>\n"),
    "XML": lambda t: html.escape(t).replace("\n", "&#10;"),
    "HTML twice": lambda t: html.escape(html.escape(t)),
    "HTML line breaks": lambda t: t.replace("\n", "<br/>"),
    "a chat's curly quotes": lambda t: t.replace('{"', "{“").replace('":', "”:").replace(':"', ":“")
    .replace('",', "”,"),
    "invisible spaces": lambda t: "\ufeff" + t.replace(": ", ":\u200b ").replace(" to ", "\xa0to "),
    "Py4J": lambda t: "py4j.protocol.Py4JJavaError: An error occurred while calling o91.save.\n: " + t
    + "\n\tat org.apache.spark.sql.delta.ConflictChecker.check(ConflictChecker.scala:305)" * 40,
    "Spark Connect": lambda t: "pyspark.errors.exceptions.connect.SparkConnectGrpcException: "
    f"(io.delta.exceptions.DeltaConcurrentModificationException) {t}\n\nJVM stacktrace:\n{t}",
    "a notebook's traceback": lambda t: "-" * 75 + "\nPy4JJavaError Traceback (most recent call last)"
    f"\nFile <command-1>, line 3\n----> 3 df.write.save('/x')\n\n{t}",
    "a job's run in Databricks": lambda t: f"Workload failed, see run output for details\n{t}",
    "a foreachBatch": lambda t: "org.apache.spark.sql.streaming.StreamingQueryException: [FOREACH_"
    f"BATCH_USER_FUNCTION_ERROR] An error occurred. Caused by: {t}",
    "a Python repr": repr,
    "a megabyte of noise": lambda t: "26/11/20 02:25:03 INFO Block: x\n" * 12_000 + t
    + "\n26/11/20 02:25:04 INFO Block: y" * 12_000,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_an_old_message_yields_all_its_facts_after_any_wrapping(way):
    reported = parse_report(WAYS[way](OLD)).conflict
    assert reported is not None
    assert reported.exception == "ConcurrentAppendException"
    assert reported.partitions == ("order_date=2026-11-19",)
    winner = reported.winner
    assert (winner.timestamp_ms, winner.operation) == (1795141491000, "MERGE")
    assert (winner.read_version, winner.isolation_level) == (2205, "WriteSerializable")
    assert winner.txn_id == "5d0c4be1-77f2-4a0e-9a8d-30c2c1f5e6aa"


@pytest.mark.parametrize("way", WAYS)
def test_a_new_message_yields_all_its_facts_after_any_wrapping(way):
    reported = parse_report(WAYS[way](NEW)).conflict
    assert reported is not None
    assert (reported.code, reported.subclass) == (
        "DELTA_CONCURRENT_DELETE_READ",
        "ROW_LEVEL_CHANGES",
    )
    assert (reported.table, reported.winning_version) == ("main.sales.orders", 830)
    assert reported.winner_operation == "UPDATE"


@pytest.mark.parametrize("way", WAYS)
def test_marks_are_at_the_pasted_facts(way):
    pasted = WAYS[way](OLD)
    report = parse_report(pasted)
    told = {mark.fact: pasted[mark.start : mark.end] for mark in report.marks}
    assert told["exception"] == "ConcurrentAppendException"
    assert told["winner_at"] == "1795141491000"
    assert told["winner_operation"] == "MERGE"
    assert told["isolation_level"] == "WriteSerializable"
    assert told["txn_id"] == "5d0c4be1-77f2-4a0e-9a8d-30c2c1f5e6aa"
    assert "2026-11-19" in told["partitions"]
    assert [mark.number for mark in report.marks] == list(range(1, len(report.marks) + 1))
    assert all(a.end <= b.start for a, b in zip(report.marks, report.marks[1:], strict=False))


def test_a_place_in_the_plain_text_leads_back_to_the_pasted_one():
    pasted = "one\x1b[31m two\x1b[0m\r\n  | three &quot;four&quot; \\u003d five"
    plain = plain_text(pasted)
    assert plain.text == 'one two three "four" = five'
    for word in ("one", "two", "three", "four", "five"):
        assert pasted[plain.origin(plain.text.index(word)) :].startswith(word)


@pytest.mark.parametrize(
    ("text", "code", "source", "version"),
    [
        (
            "_internal.CommitFailedError: Failed to commit transaction: 15",
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED", "delta-rs", None,
        ),
        (
            "_internal.DeltaError: Delta transaction failed, version 0 already exists.",
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED", "delta-rs", 0,
        ),
        (
            "LockClientError::VersionAlreadyExists(77). Error occured: Failed to commit "
            "transaction: Metadata changed since last commit.",
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED", "delta-rs", 77,
        ),
        (
            "io.trino.spi.TrinoException: Failed to write Delta Lake transaction log entry\nCaused "
            "by: Conflicting concurrent writes found. Data files added in the modified table by "
            "concurrent write operation.",
            "DELTA_CONCURRENT_APPEND", "Trino", None,
        ),
        (
            "Conflicting concurrent writes found. Metadata changed by concurrent write operation",
            "DELTA_METADATA_CHANGED", "Trino", None,
        ),
        (
            "Conflicting concurrent writes found. Expected transaction log version: 5, actual "
            "version: 6",
            "DELTA_CONCURRENT_WRITE", "Trino", 6,
        ),
        (
            "TrinoException: Target file already exists: s3://b/t/_delta_log/00000000000000000023"
            ".json",
            "DELTA_CONCURRENT_WRITE", "Trino", 23,
        ),
        (
            "com.databricks.sql.transaction.tahoe.ConcurrentDeleteReadException: [DELTA_CONCURRENT_"
            "DELETE_READ] ConcurrentDeleteReadException: This transaction attempted to read one or "
            "more files that were deleted (for example a.parquet) by a concurrent update.",
            "DELTA_CONCURRENT_DELETE_READ", "Databricks", None,
        ),
    ],
)  # fmt: skip
def test_messages_of_other_writers_are_known(text, code, source, version):
    reported = parse_report(text).conflict
    assert reported is not None
    assert (reported.code, reported.source, reported.winning_version) == (code, source, version)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OLD, "delta-spark, without an error class"),
        (
            OLD.replace("Files", "[DELTA_CONCURRENT_APPEND] Files"),
            "delta-spark, with an error class",
        ),
        (NEW, "Databricks, error class with sub-class"),
        ("Commit failed: a concurrent transactions added new data.", "delta-rs"),
    ],
)
def test_the_format_is_named(text, expected):
    assert parse_report(text).format == expected


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        (WAYS["a Spark log before it"](OLD), "items-upsert"),
        (WAYS["a foreachBatch"](OLD), ""),
        ("Query [id = 1, runId = 2] terminated with exception: " + OLD, ""),
        (OLD, None),
    ],
)
def test_a_stream_that_failed_is_named(text, stream):
    assert parse_report(text).conflict.stream == stream
