"""sales.returns: one property short of row-level concurrency, and the source of a stream."""

from dataclasses import replace

from lakeui.local_stack.demo_data import RETURNS, schema_json
from lakeui.local_stack.demo_step import DemoJob, append, create, files

RETURNS_TABLE = "sales.returns"

FEED_TABLE = "ops.returns_feed"


def _stream(key: str, title: str, *after: str) -> DemoJob:
    parameters = {
        "source_table": RETURNS_TABLE,
        "stream_name": "returns",
        "skip_change_commits": True,
    }
    return DemoJob(key, title, "returns-loader", FEED_TABLE, "stream", parameters, after)


RETURNS_STEPS = (
    create(
        "returns",
        RETURNS_TABLE,
        RETURNS,
        properties={"delta.enableDeletionVectors": "false"},
        source=files("returns-1.parquet"),
    ),
    append("returns-2", RETURNS_TABLE, "returns-2.parquet", "returns", account="returns-loader"),
    DemoJob(
        "returns-refund",
        "Mark small returns as refunded",
        "price-fixer",
        RETURNS_TABLE,
        "update",
        {"assignments": {"state": "'refunded'"}, "where": "amount < 20 AND state = 'open'"},
        ("returns-2",),
    ),
    DemoJob(
        "returns-erase",
        "Erase a customer from the same files: aborted, conflicts here are decided at file level",
        "gdpr-eraser",
        RETURNS_TABLE,
        "delete",
        {"where": "customer_id = 42"},
        ("returns-2",),
        commit_after="returns-refund",
        may_lose=True,
    ),
    create("feed", FEED_TABLE, RETURNS, properties={"delta.appendOnly": "true"}),
    _stream("feed-1", "Carry new returns into ops.returns_feed", "returns-2", "feed"),
    replace(
        _stream(
            "feed-twice",
            "The same stream, started twice: one of them is aborted",
            "returns-2",
            "feed",
        ),
        account="etl-nightly",
        commit_after="feed-1",
        may_lose=True,
    ),
    DemoJob(
        "returns-note",
        "Add a column to sales.returns, which a stream reads",
        "schema-bot",
        RETURNS_TABLE,
        "alter_add_columns",
        {"columns": schema_json({"note": "string"})},
        ("returns-refund", "returns-erase", "feed-1", "feed-twice"),
    ),
    replace(
        _stream("feed-2", "Carry on: stops, the schema of its source has changed", "returns-note"),
        may_fail="DELTA_SCHEMA_CHANGED_WITH_VERSION",
    ),
)
