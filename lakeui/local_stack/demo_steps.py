"""The story of the demo lake: its tables, the accounts that work on them, and how they meet."""

from collections.abc import Mapping

from lakeui.local_stack.demo_items import ITEMS_STEPS
from lakeui.local_stack.demo_ops import (
    EVENTS_STEPS,
    TELEMETRY_STEPS,
    VISITS_STEPS,
    VISITS_TABLE,
)
from lakeui.local_stack.demo_orders import ORDERS_STEPS, ORDERS_TABLE
from lakeui.local_stack.demo_returns import RETURNS_STEPS
from lakeui.local_stack.demo_step import PlannedSchedule, Step

ACCOUNTS: Mapping[str, str] = {
    "etl-nightly": "operator",
    "price-fixer": "operator",
    "gdpr-eraser": "operator",
    "opt-scheduler": "maintainer",
    "etl-compactor": "maintainer",
    "schema-bot": "maintainer",
    "lake-admin": "admin",
    "returns-loader": "operator",
    "telemetry-loader": "operator",
    "visit-builder": "operator",
}
"""Service accounts of the demo and their roles."""

STEPS: tuple[Step, ...] = (
    *ORDERS_STEPS,
    *ITEMS_STEPS,
    *EVENTS_STEPS,
    *RETURNS_STEPS,
    *TELEMETRY_STEPS,
    *VISITS_STEPS,
)

SCHEDULES: tuple[PlannedSchedule, ...] = (
    PlannedSchedule("Nightly compaction", ORDERS_TABLE, "0 2 * * *", "OPTIMIZE {table}"),
    PlannedSchedule("Weekly clean-up", VISITS_TABLE, "30 3 * * 0", "VACUUM {table}"),
)
"""What is asked for again and again, by `opt-scheduler`, once the lake is full."""
