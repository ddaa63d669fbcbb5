"""Tables of the demo lake, and the steps of their story.

- sales.order_items: partitioned, without deletion vectors; files decide, and writes are aborted.
- Events with settings, telemetry in many small files, and visits rebuilt each night.
- sales.orders: clustered, with deletion vectors and row tracking; most overlaps are resolved.
- sales.returns: one property short of row-level concurrency, and the source of a stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.protocol.properties import IsolationLevel
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


def set_property(key: str, title: str, table: str, name: str, value: str, *after: str) -> DemoJob:
    """Set one property."""
    parameters = {"properties": {name: value}}
    return DemoJob(key, title, "schema-bot", table, "set_properties", parameters, after)


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
    DemoJob(
        "items-fix",
        "Delete a product of one day",
        "price-fixer",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-03' AND product = 'P-150'"},
        ("items-3",),
    ),
    DemoJob(
        "items-erase",
        "Delete other rows of the same day: aborted, the partition's files were rewritten",
        "gdpr-eraser",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-03' AND order_id < 100100"},
        ("items-3",),
        commit_after="items-fix",
        may_lose=True,
    ),
    DemoJob(
        "items-serializable",
        "Make sales.order_items Serializable",
        "schema-bot",
        ITEMS_TABLE,
        "set_properties",
        {"properties": {"delta.isolationLevel": str(IsolationLevel.SERIALIZABLE)}},
        ("items-fix", "items-erase"),
    ),
    append("items-4", ITEMS_TABLE, "items-4.parquet", "items-serializable"),
    DemoJob(
        "items-cheap",
        "Delete cheap items of the day that is being loaded: aborted at Serializable",
        "price-fixer",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on >= DATE '2026-11-04' AND price < 2"},
        ("items-serializable",),
        commit_after="items-4",
        may_lose=True,
    ),
    append("items-late", ITEMS_TABLE, "items-late.parquet", "items-4", "items-cheap"),
    DemoJob(
        "items-drop-day",
        "Delete the first day of sales.order_items",
        "gdpr-eraser",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-02'"},
        ("items-late",),
    ),
    DemoJob(
        "items-fix-day",
        "Delete some rows of the day that is being dropped: aborted, because its files are gone",
        "price-fixer",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-02' AND quantity = 4"},
        ("items-late",),
        commit_after="items-drop-day",
        may_lose=True,
    ),
    DemoJob(
        "items-optimize",
        "Compact sales.order_items",
        "opt-scheduler",
        ITEMS_TABLE,
        "optimize",
        after=("items-drop-day", "items-fix-day"),
    ),
    DemoJob(
        "items-optimize-twice",
        "Compact sales.order_items at the same time: aborted, both remove the same files",
        "etl-compactor",
        ITEMS_TABLE,
        "optimize",
        after=("items-drop-day", "items-fix-day"),
        commit_after="items-optimize",
        may_lose=True,
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
    DemoJob(
        "events-retention",
        "Set a property of ops.events while a delete runs",
        "schema-bot",
        EVENTS_TABLE,
        "set_properties",
        {"properties": {"delta.targetFileSize": "64mb"}},
        ("events-6",),
    ),
    DemoJob(
        "events-errors",
        "Delete error events: aborted by the property, then succeeds by its retry",
        "price-fixer",
        EVENTS_TABLE,
        "delete",
        {"where": "kind = 'error'"},
        ("events-6",),
        retries=2,
        commit_after="events-retention",
        may_lose=True,
    ),
    DemoJob(
        "events-optimize",
        "Compact the small files of ops.events",
        "opt-scheduler",
        EVENTS_TABLE,
        "optimize",
        after=("events-errors", "events-retention"),
    ),
    set_property(
        "events-times",
        "Keep commit times in the log of ops.events, which upgrades its protocol",
        EVENTS_TABLE,
        "delta.enableInCommitTimestamps",
        "true",
        "events-optimize",
    ),
    DemoJob(
        "events-searches",
        "Delete searches: aborted by the upgrade of the protocol",
        "gdpr-eraser",
        EVENTS_TABLE,
        "delete",
        {"where": "kind = 'search' AND customer_id < 40"},
        ("events-optimize",),
        commit_after="events-times",
        may_lose=True,
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
    DemoJob(
        "orders-erase",
        "Erase a customer from sales.orders",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 42"},
        ("orders-4",),
    ),
    DemoJob(
        "orders-returned",
        "Delete returned orders of Japan while another delete runs",
        "price-fixer",
        ORDERS_TABLE,
        "delete",
        {"where": "country = 'JP' AND status = 'returned'"},
        ("orders-erase",),
    ),
    DemoJob(
        "orders-erase-again",
        "Erase another customer from the same files: resolved at row level",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 77 AND country <> 'JP'"},
        ("orders-erase",),
        commit_after="orders-returned",
        may_lose=True,
    ),
    DemoJob(
        "orders-open",
        "Close open orders of Italy while a delete overlaps",
        "price-fixer",
        ORDERS_TABLE,
        "update",
        {"assignments": {"status": "'closed'"}, "where": "country = 'IT' AND status = 'open'"},
        ("orders-returned", "orders-erase-again"),
    ),
    DemoJob(
        "orders-erase-same",
        "Erase customers some of whose orders are being closed: aborted, both change one row",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id BETWEEN 100 AND 160"},
        ("orders-returned", "orders-erase-again"),
        commit_after="orders-open",
        may_lose=True,
    ),
    DemoJob(
        "orders-optimize",
        "Compact sales.orders",
        "opt-scheduler",
        ORDERS_TABLE,
        "optimize",
        after=("orders-open", "orders-erase-same"),
    ),
    DemoJob(
        "orders-erase-moved",
        "Erase a customer whose rows the compaction moves: resolved by the row map",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 99"},
        ("orders-open", "orders-erase-same"),
        commit_after="orders-optimize",
        may_lose=True,
    ),
    DemoJob(
        "orders-vacuum",
        "List what VACUUM of sales.orders would delete",
        "opt-scheduler",
        ORDERS_TABLE,
        "vacuum",
        after=("orders-optimize", "orders-erase-moved"),
        dry_run=True,
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
    DemoJob(
        "orders-close",
        "Close old orders of France while the merge runs",
        "price-fixer",
        ORDERS_TABLE,
        "update",
        {
            "assignments": {"status": "'closed'"},
            "where": "country = 'FR' AND status = 'open' AND ordered_on = DATE '2026-11-04'",
        },
        ("orders-optimize", "orders-erase-moved"),
        retries=1,
        commit_after="orders-merge",
        may_lose=True,
    ),
    append("orders-late", ORDERS_TABLE, "orders-late.parquet", "orders-merge", "orders-close"),
    DemoJob(
        "orders-erase-reordered",
        "Erase a customer while late orders of the same customer load: commits, and misses them",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 7"},
        ("orders-merge", "orders-close"),
        commit_after="orders-late",
        may_lose=True,
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
        _stream(
            "feed-2",
            "Continue the stream: stops, because the schema of its source has changed",
            "returns-note",
        ),
        may_fail="DELTA_SCHEMA_CHANGED_WITH_VERSION",
    ),
)
