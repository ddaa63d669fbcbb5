"""sales.returns: one property away from row-level concurrency, and a write lost for want of it."""

from lakeui.local_stack.demo_data import RETURNS
from lakeui.local_stack.demo_step import Step, append, create, files

RETURNS_TABLE = "sales.returns"

RETURNS_STEPS = (
    create(
        "returns",
        RETURNS_TABLE,
        RETURNS,
        properties={"delta.enableDeletionVectors": "false"},
        source=files("returns-1.parquet"),
    ),
    append("returns-2", RETURNS_TABLE, "returns-2.parquet", "returns", account="returns-loader"),
    Step(
        "returns-refund",
        "Mark small returns as refunded",
        "price-fixer",
        RETURNS_TABLE,
        "update",
        {"assignments": {"state": "'refunded'"}, "where": "amount < 20 AND state = 'open'"},
        ("returns-2",),
    ),
    Step(
        "returns-erase",
        "Erase a customer from the same files: loses, for rows cannot be told apart here",
        "gdpr-eraser",
        RETURNS_TABLE,
        "delete",
        {"where": "customer_id = 42"},
        ("returns-2",),
        commit_after="returns-refund",
        may_lose=True,
    ),
)
