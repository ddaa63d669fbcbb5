"""Tables of the demo lake, and the steps of their story.

- sales.order_items: partitioned, without deletion vectors; files decide, and writes are aborted.
- Events with settings, telemetry in many small files, and visits rebuilt each night.
- sales.orders: clustered, with deletion vectors and row tracking; most overlaps are resolved.
- sales.returns: one property short of row-level concurrency, and the source of a stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.commands.sql import parse_request
from lakeui.local_stack.demo_data import (
    EVENTS,
    ITEMS,
    ORDERS,
    RETURNS,
    TELEMETRY,
    TELEMETRY_FILES,
    VISITS,
    VISITS_NIGHTS,
    schema_json,
)


@dataclass(frozen=True)
class DemoJob:
    """A job of the story. `after` names the steps that must have ended before.

    `commit_after` names the step that is to win against this one (see `Job.commit_after`);
    `may_fail` the code of the error to demonstrate.
    """

    key: str
    title: str
    account: str
    table: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    dry_run: bool = False
    retries: int = 0
    commit_after: str = ""
    may_lose: bool = False
    may_fail: str = ""


@dataclass(frozen=True)
class PlannedSchedule:
    """A statement run by the clock; `{table}` in it is the table's name."""

    name: str
    table: str
    cron: str
    sql: str


def files(name: str) -> dict[str, Any]:
    """Return a source; the directory is filled in when the step is requested."""
    return {"kind": "files", "uri": name, "format": name.rpartition(".")[2]}


def create(
    key: str,
    table: str,
    columns: dict[str, str],
    account: str = "schema-bot",
    **more: Any,  # noqa: ANN401
) -> DemoJob:
    """Create a table, filled from a `source` if given."""
    parameters = {"schema": schema_json(columns), **more}
    return DemoJob(key, f"Create {table}", account, table, "create", parameters)


def append(key: str, table: str, file: str, *after: str, account: str = "etl-nightly") -> DemoJob:
    """Load a file."""
    title = f"Load {file} into {table}"
    return DemoJob(key, title, account, table, "append", {"source": files(file)}, after)


def run(
    key: str, account: str, title: str, sql: str, *after: str, loses_to: str = "", retries: int = 0
) -> DemoJob:
    """Run a statement; `loses_to` names the step that is to win against it."""
    command, dry_run = parse_request(sql)
    return DemoJob(
        key,
        title,
        account,
        command.table,
        command.kind,
        {name: value for name, value in command.parameters().items() if name != "table"},
        after,
        dry_run=dry_run,
        retries=retries,
        commit_after=loses_to,
        may_lose=bool(loses_to),
    )


ITEMS_TABLE = "sales.order_items"

ITEMS_STEPS = (
    create(
        "items",
        ITEMS_TABLE,
        ITEMS,
        partition_columns=["ordered_on"],
        properties={"delta.enableDeletionVectors": "false"},
        source=files("items-1.parquet"),
    ),
    append("items-2", ITEMS_TABLE, "items-2.parquet", "items"),
    append("items-3", ITEMS_TABLE, "items-3.parquet", "items-2"),
    run(
        "items-fix",
        "price-fixer",
        "Delete a product of one day",
        "DELETE FROM sales.order_items WHERE ordered_on = DATE '2026-11-03' AND product = 'P-150'",
        "items-3",
    ),
    run(
        "items-erase",
        "gdpr-eraser",
        "Delete other rows of the same day: aborted, the partition's files were rewritten",
        "DELETE FROM sales.order_items WHERE ordered_on = DATE '2026-11-03' AND order_id < 100100",
        "items-3",
        loses_to="items-fix",
    ),
    run(
        "items-serializable",
        "schema-bot",
        "Make sales.order_items Serializable",
        "ALTER TABLE sales.order_items SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')",
        "items-fix",
        "items-erase",
    ),
    append("items-4", ITEMS_TABLE, "items-4.parquet", "items-serializable"),
    run(
        "items-cheap",
        "price-fixer",
        "Delete cheap items of the day that is being loaded: aborted at Serializable",
        "DELETE FROM sales.order_items WHERE ordered_on >= DATE '2026-11-04' AND price < 2",
        "items-serializable",
        loses_to="items-4",
    ),
    append("items-late", ITEMS_TABLE, "items-late.parquet", "items-4", "items-cheap"),
    run(
        "items-drop-day",
        "gdpr-eraser",
        "Delete the first day of sales.order_items",
        "DELETE FROM sales.order_items WHERE ordered_on = DATE '2026-11-02'",
        "items-late",
    ),
    run(
        "items-fix-day",
        "price-fixer",
        "Delete some rows of the day that is being dropped: aborted, because its files are gone",
        "DELETE FROM sales.order_items WHERE ordered_on = DATE '2026-11-02' AND quantity = 4",
        "items-late",
        loses_to="items-drop-day",
    ),
    run(
        "items-optimize",
        "opt-scheduler",
        "Compact sales.order_items",
        "OPTIMIZE sales.order_items",
        "items-drop-day",
        "items-fix-day",
    ),
    run(
        "items-optimize-twice",
        "etl-compactor",
        "Compact sales.order_items at the same time: aborted, both remove the same files",
        "OPTIMIZE sales.order_items",
        "items-drop-day",
        "items-fix-day",
        loses_to="items-optimize",
    ),
)


EVENTS_TABLE = "ops.events"
TELEMETRY_TABLE = "ops.device_telemetry"
VISITS_TABLE = "web.visits"

EVENTS_STEPS = (
    create("events", EVENTS_TABLE, EVENTS, source=files("events-1.parquet")),
    *(
        append(
            f"events-{part}",
            EVENTS_TABLE,
            f"events-{part}.parquet",
            "events" if part == 2 else f"events-{part - 1}",
        )
        for part in range(2, 7)
    ),
    run(
        "events-retention",
        "schema-bot",
        "Set a property of ops.events while a delete runs",
        "ALTER TABLE ops.events SET TBLPROPERTIES ('delta.targetFileSize' = '64mb')",
        "events-6",
    ),
    run(
        "events-errors",
        "price-fixer",
        "Delete error events: aborted by the property, then succeeds by its retry",
        "DELETE FROM ops.events WHERE kind = 'error'",
        "events-6",
        loses_to="events-retention",
        retries=2,
    ),
    run(
        "events-optimize",
        "opt-scheduler",
        "Compact the small files of ops.events",
        "OPTIMIZE ops.events",
        "events-errors",
        "events-retention",
    ),
    run(
        "events-times",
        "schema-bot",
        "Keep commit times in the log of ops.events, which upgrades its protocol",
        "ALTER TABLE ops.events SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "events-optimize",
    ),
    run(
        "events-searches",
        "gdpr-eraser",
        "Delete searches: aborted by the upgrade of the protocol",
        "DELETE FROM ops.events WHERE kind = 'search' AND customer_id < 40",
        "events-optimize",
        loses_to="events-times",
    ),
)

TELEMETRY_STEPS = (
    create("telemetry", TELEMETRY_TABLE, TELEMETRY, source=files("telemetry-1.parquet")),
    *(
        append(
            f"telemetry-{part}",
            TELEMETRY_TABLE,
            f"telemetry-{part}.parquet",
            "telemetry",
            account="telemetry-loader",
        )
        for part in range(2, TELEMETRY_FILES + 1)
    ),
)

VISITS_STEPS = (
    create(
        "visits",
        VISITS_TABLE,
        VISITS,
        account="lake-admin",
        properties={"delta.deletedFileRetentionDuration": "interval 0 seconds"},
        source=files("visits-1.parquet"),
    ),
    *(
        DemoJob(
            f"visits-{night}",
            "Rebuild web.visits; the old files stay until VACUUM",
            "visit-builder",
            VISITS_TABLE,
            "overwrite",
            {"source": files(f"visits-{night}.parquet")},
            ("visits" if night == 2 else f"visits-{night - 1}",),
        )
        for night in range(2, VISITS_NIGHTS + 1)
    ),
)


ORDERS_TABLE = "sales.orders"

ORDERS_STEPS = (
    create(
        "orders",
        ORDERS_TABLE,
        ORDERS,
        clustering_columns=["country", "ordered_on"],
        source=files("orders-1.csv"),
    ),
    append("orders-2", ORDERS_TABLE, "orders-2.csv", "orders"),
    append("orders-3", ORDERS_TABLE, "orders-3.csv", "orders-2"),
    append("orders-4", ORDERS_TABLE, "orders-4.csv", "orders-3"),
    run(
        "orders-erase",
        "gdpr-eraser",
        "Erase a customer from sales.orders",
        "DELETE FROM sales.orders WHERE customer_id = 42",
        "orders-4",
    ),
    run(
        "orders-returned",
        "price-fixer",
        "Delete returned orders of Japan while another delete runs",
        "DELETE FROM sales.orders WHERE country = 'JP' AND status = 'returned'",
        "orders-erase",
    ),
    run(
        "orders-erase-again",
        "gdpr-eraser",
        "Erase another customer from the same files: resolved at row level",
        "DELETE FROM sales.orders WHERE customer_id = 77 AND country <> 'JP'",
        "orders-erase",
        loses_to="orders-returned",
    ),
    run(
        "orders-open",
        "price-fixer",
        "Close open orders of Italy while a delete overlaps",
        "UPDATE sales.orders SET status = 'closed' WHERE country = 'IT' AND status = 'open'",
        "orders-returned",
        "orders-erase-again",
    ),
    run(
        "orders-erase-same",
        "gdpr-eraser",
        "Erase customers some of whose orders are being closed: aborted, both change one row",
        "DELETE FROM sales.orders WHERE customer_id BETWEEN 100 AND 160",
        "orders-returned",
        "orders-erase-again",
        loses_to="orders-open",
    ),
    run(
        "orders-optimize",
        "opt-scheduler",
        "Compact sales.orders",
        "OPTIMIZE sales.orders",
        "orders-open",
        "orders-erase-same",
    ),
    run(
        "orders-erase-moved",
        "gdpr-eraser",
        "Erase a customer whose rows the compaction moves: resolved by the row map",
        "DELETE FROM sales.orders WHERE customer_id = 99",
        "orders-open",
        "orders-erase-same",
        loses_to="orders-optimize",
    ),
    run(
        "orders-vacuum",
        "opt-scheduler",
        "List what VACUUM of sales.orders would delete",
        "VACUUM sales.orders DRY RUN",
        "orders-optimize",
        "orders-erase-moved",
    ),
    DemoJob(
        "orders-merge",
        "Merge corrections and late orders into sales.orders",
        "etl-nightly",
        ORDERS_TABLE,
        "merge",
        {
            "source": files("orders-corrections.parquet"),
            "on": "target.order_id = source.order_id",
            "clauses": [
                {
                    "when": "matched",
                    "action": "update",
                    "assignments": {"status": "source.status"},
                },
                {"when": "not_matched", "action": "insert_all"},
            ],
        },
        ("orders-optimize", "orders-erase-moved"),
    ),
    run(
        "orders-close",
        "price-fixer",
        "Close old orders of France while the merge runs",
        "UPDATE sales.orders SET status = 'closed' "
        "WHERE country = 'FR' AND status = 'open' AND ordered_on = DATE '2026-11-04'",
        "orders-optimize",
        "orders-erase-moved",
        loses_to="orders-merge",
        retries=1,
    ),
    append("orders-late", ORDERS_TABLE, "orders-late.parquet", "orders-merge", "orders-close"),
    run(
        "orders-erase-reordered",
        "gdpr-eraser",
        "Erase a customer while late orders of the same customer load: commits, and misses them",
        "DELETE FROM sales.orders WHERE customer_id = 7",
        "orders-merge",
        "orders-close",
        loses_to="orders-late",
    ),
)


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
    run(
        "returns-refund",
        "price-fixer",
        "Mark small returns as refunded",
        "UPDATE sales.returns SET state = 'refunded' WHERE amount < 20 AND state = 'open'",
        "returns-2",
    ),
    run(
        "returns-erase",
        "gdpr-eraser",
        "Erase a customer from the same files: aborted, conflicts here are decided at file level",
        "DELETE FROM sales.returns WHERE customer_id = 42",
        "returns-2",
        loses_to="returns-refund",
    ),
    create("feed", FEED_TABLE, RETURNS, properties={"delta.appendOnly": "true"}),
    _stream("feed-1", "Copy new returns into ops.returns_feed", "returns-2", "feed"),
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
    run(
        "returns-note",
        "schema-bot",
        "Add a column to sales.returns, which a stream reads",
        "ALTER TABLE sales.returns ADD COLUMNS (note STRING)",
        "returns-refund",
        "returns-erase",
        "feed-1",
        "feed-twice",
    ),
    replace(
        _stream(
            "feed-2",
            "Continue the stream: stops, because the schema of its source has changed",
            "returns-note",
        ),
        may_fail="DELTA_SCHEMA_CHANGED_WITH_VERSION",
    ),
)
