"""The story of the demo lake: three tables, the accounts that work on them, and how they meet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeui.local_stack.demo_data import EVENTS, ITEMS, ORDERS, schema_json

ACCOUNTS: Mapping[str, str] = {
    "etl-nightly": "operator",
    "price-fixer": "operator",
    "gdpr-eraser": "operator",
    "opt-scheduler": "maintainer",
    "etl-compactor": "maintainer",
    "schema-bot": "maintainer",
}
"""Service accounts of the demo and their roles."""

ORDERS_TABLE, ITEMS_TABLE, EVENTS_TABLE = "sales.orders", "sales.order_items", "ops.events"


@dataclass(frozen=True)
class Step:
    """A job of the story. `after` names the steps that must have ended before.

    `commit_after` names the step that is to win against this one (see `Job.commit_after`).
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


def _files(name: str) -> dict[str, Any]:
    """A source; the directory is filled in when the step is requested."""
    return {"kind": "files", "uri": name, "format": name.rpartition(".")[2]}


def _create(key: str, table: str, columns: dict[str, str], **more: Any) -> Step:  # noqa: ANN401
    parameters = {"schema": schema_json(columns), **more}
    return Step(key, f"Create {table}", "schema-bot", table, "create", parameters)


def _append(key: str, table: str, file: str, *after: str) -> Step:
    title = f"Load {file} into {table}"
    return Step(key, title, "etl-nightly", table, "append", {"source": _files(file)}, after)


_ORDERS_STEPS = (
    _create(
        "orders",
        ORDERS_TABLE,
        ORDERS,
        clustering_columns=["country", "ordered_on"],
        source=_files("orders-1.csv"),
    ),
    _append("orders-2", ORDERS_TABLE, "orders-2.csv", "orders"),
    _append("orders-3", ORDERS_TABLE, "orders-3.csv", "orders-2"),
    _append("orders-4", ORDERS_TABLE, "orders-4.csv", "orders-3"),
    Step(
        "orders-erase",
        "Erase a customer from sales.orders",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 42"},
        ("orders-4",),
    ),
    Step(
        "orders-returned",
        "Delete returned orders of Japan while another delete runs",
        "price-fixer",
        ORDERS_TABLE,
        "delete",
        {"where": "country = 'JP' AND status = 'returned'"},
        ("orders-erase",),
    ),
    Step(
        "orders-erase-again",
        "Erase another customer from the same files: absorbed row by row",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 77 AND country <> 'JP'"},
        ("orders-erase",),
        commit_after="orders-returned",
        may_lose=True,
    ),
    Step(
        "orders-open",
        "Delete open orders of Italy while another delete meets them",
        "price-fixer",
        ORDERS_TABLE,
        "delete",
        {"where": "country = 'IT' AND status = 'open'"},
        ("orders-returned", "orders-erase-again"),
    ),
    Step(
        "orders-erase-same",
        "Erase a customer some of whose rows are being deleted: loses, row against row",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id BETWEEN 100 AND 160"},
        ("orders-returned", "orders-erase-again"),
        commit_after="orders-open",
        may_lose=True,
    ),
    Step(
        "orders-optimize",
        "Compact sales.orders",
        "opt-scheduler",
        ORDERS_TABLE,
        "optimize",
        after=("orders-open", "orders-erase-same"),
    ),
    Step(
        "orders-erase-moved",
        "Erase a customer whose rows the compaction moves: absorbed by the row map",
        "gdpr-eraser",
        ORDERS_TABLE,
        "delete",
        {"where": "customer_id = 99"},
        ("orders-open", "orders-erase-same"),
        commit_after="orders-optimize",
        may_lose=True,
    ),
    Step(
        "orders-vacuum",
        "Look at what VACUUM of sales.orders would delete",
        "opt-scheduler",
        ORDERS_TABLE,
        "vacuum",
        after=("orders-optimize", "orders-erase-moved"),
        dry_run=True,
    ),
    Step(
        "orders-merge",
        "Merge corrections and late orders into sales.orders",
        "etl-nightly",
        ORDERS_TABLE,
        "merge",
        {
            "source": _files("orders-corrections.parquet"),
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
    Step(
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
)

_ITEMS_STEPS = (
    _create(
        "items",
        ITEMS_TABLE,
        ITEMS,
        partition_columns=["ordered_on"],
        properties={"delta.enableDeletionVectors": "false"},
        source=_files("items-1.parquet"),
    ),
    _append("items-2", ITEMS_TABLE, "items-2.parquet", "items"),
    _append("items-3", ITEMS_TABLE, "items-3.parquet", "items-2"),
    Step(
        "items-fix",
        "Delete a product of one day",
        "price-fixer",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-03' AND product = 'P-150'"},
        ("items-3",),
    ),
    Step(
        "items-erase",
        "Delete other rows of the same day: loses, the partition's files were rewritten",
        "gdpr-eraser",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-03' AND order_id < 100100"},
        ("items-3",),
        commit_after="items-fix",
        may_lose=True,
    ),
    Step(
        "items-serializable",
        "Make sales.order_items Serializable",
        "schema-bot",
        ITEMS_TABLE,
        "set_properties",
        {"properties": {"delta.isolationLevel": "Serializable"}},
        ("items-fix", "items-erase"),
    ),
    _append("items-4", ITEMS_TABLE, "items-4.parquet", "items-serializable"),
    Step(
        "items-cheap",
        "Delete cheap items of the day that is being loaded: loses at Serializable",
        "price-fixer",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on >= DATE '2026-11-04' AND price < 2"},
        ("items-serializable",),
        commit_after="items-4",
        may_lose=True,
    ),
    _append("items-late", ITEMS_TABLE, "items-late.parquet", "items-4", "items-cheap"),
    Step(
        "items-drop-day",
        "Delete the first day of sales.order_items",
        "gdpr-eraser",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-02'"},
        ("items-late",),
    ),
    Step(
        "items-fix-day",
        "Delete some rows of the day that is being dropped: loses, its files are gone",
        "price-fixer",
        ITEMS_TABLE,
        "delete",
        {"where": "ordered_on = DATE '2026-11-02' AND quantity = 4"},
        ("items-late",),
        commit_after="items-drop-day",
        may_lose=True,
    ),
    Step(
        "items-optimize",
        "Compact sales.order_items",
        "opt-scheduler",
        ITEMS_TABLE,
        "optimize",
        after=("items-drop-day", "items-fix-day"),
    ),
    Step(
        "items-optimize-twice",
        "Compact sales.order_items at the same time: loses, both remove the same files",
        "etl-compactor",
        ITEMS_TABLE,
        "optimize",
        after=("items-drop-day", "items-fix-day"),
        commit_after="items-optimize",
        may_lose=True,
    ),
)

_EVENTS_STEPS = (
    _create("events", EVENTS_TABLE, EVENTS, source=_files("events-1.parquet")),
    *(
        _append(
            f"events-{part}",
            EVENTS_TABLE,
            f"events-{part}.parquet",
            "events" if part == 2 else f"events-{part - 1}",
        )
        for part in range(2, 7)
    ),
    Step(
        "events-retention",
        "Set a property of ops.events while a delete runs",
        "schema-bot",
        EVENTS_TABLE,
        "set_properties",
        {"properties": {"delta.targetFileSize": "64mb"}},
        ("events-6",),
    ),
    Step(
        "events-errors",
        "Delete error events: loses to the property, then succeeds by its retry",
        "price-fixer",
        EVENTS_TABLE,
        "delete",
        {"where": "kind = 'error'"},
        ("events-6",),
        retries=2,
        commit_after="events-retention",
        may_lose=True,
    ),
    Step(
        "events-optimize",
        "Compact the small files of ops.events",
        "opt-scheduler",
        EVENTS_TABLE,
        "optimize",
        after=("events-errors", "events-retention"),
    ),
)

STEPS: tuple[Step, ...] = (*_ORDERS_STEPS, *_ITEMS_STEPS, *_EVENTS_STEPS)
