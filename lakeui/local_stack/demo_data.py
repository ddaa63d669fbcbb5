"""Source files of the demo's jobs: made once, the same on every machine."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

FIRST_DAY = date(2026, 11, 2)
DAYS = 4
ORDERS_A_DAY = 4000
_COUNTRIES = ("DE", "FR", "IT", "JP", "PL", "US")
_STATUSES = ("delivered", "delivered", "delivered", "open", "returned")
_EVENTS = ("login", "search", "view", "basket", "checkout", "error")

ORDERS = {
    "order_id": "long",
    "customer_id": "long",
    "country": "string",
    "status": "string",
    "amount": "decimal(12,2)",
    "ordered_at": "timestamp",
    "ordered_on": "date",
}
ITEMS = {
    "order_id": "long",
    "position": "integer",
    "product": "string",
    "quantity": "integer",
    "price": "decimal(10,2)",
    "ordered_on": "date",
}
EVENTS = {"event_id": "long", "kind": "string", "customer_id": "long", "at": "timestamp"}
RETURNS = {
    "return_id": "long",
    "order_id": "long",
    "customer_id": "long",
    "amount": "decimal(12,2)",
    "state": "string",
}
TELEMETRY = {"device_id": "long", "at": "timestamp", "temperature": "double"}
TELEMETRY_FILES = 12
VISITS = {"day": "date", "page": "string", "visits": "long"}
VISITS_NIGHTS = 4


def schema_json(columns: dict[str, str]) -> str:
    """Delta's schema JSON of nullable columns."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def make_files(directory: Path) -> None:
    """Write missing files: orders as CSV, items and events as Parquet."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in _files():
        _keep(directory / name, table)


def file_names() -> list[str]:
    """Return the names of the demo's files."""
    return [name for name, _ in _files()]


def _files() -> Iterator[tuple[str, Callable[[], pa.Table]]]:
    for day in range(DAYS):
        yield f"orders-{day + 1}.csv", partial(_orders_of_day, day)
        yield f"items-{day + 1}.parquet", partial(_items_of_day, day)
    yield "orders-corrections.parquet", _corrections_table
    yield "items-late.parquet", _late_items_table
    for part in range(6):
        yield f"events-{part + 1}.parquet", partial(_events_table, part)
    yield "orders-late.parquet", _late_orders_table
    for part in (1, 2):
        yield f"returns-{part}.parquet", partial(_returns_table, part)
    for part in range(1, TELEMETRY_FILES + 1):
        yield f"telemetry-{part}.parquet", partial(_telemetry_table, part)
    for night in range(1, VISITS_NIGHTS + 1):
        yield f"visits-{night}.parquet", partial(_visits_table, night)


def _keep(path: Path, make_table: Callable[[], pa.Table]) -> None:
    if path.exists():
        return
    table = make_table()
    fresh = path.with_name(f".{path.name}")
    if path.suffix == ".csv":
        csv.write_csv(table, fresh)
    else:
        pq.write_table(table, fresh)
    fresh.rename(path)


def _orders_of_day(day: int) -> pa.Table:
    return _orders_table(list(_orders(day)))


def _items_of_day(day: int) -> pa.Table:
    return _items_table([(day, list(_orders(day)))])


def _late_items_table() -> pa.Table:
    return _items_table([(100 + day, list(_orders(day))[::9]) for day in range(DAYS)])


def _orders(day: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(day)  # noqa: S311 - sample rows, the same every time
    midnight = datetime.combine(FIRST_DAY + timedelta(days=day), datetime.min.time(), UTC)
    for number in range(ORDERS_A_DAY):
        yield {
            "order_id": day * 100_000 + number,
            "customer_id": chance.randrange(1, 600),
            "country": chance.choice(_COUNTRIES),
            "status": chance.choice(_STATUSES),
            "amount": f"{chance.randrange(500, 40_000) / 100:.2f}",
            "ordered_at": midnight + timedelta(seconds=chance.randrange(86_400)),
            "ordered_on": midnight.date(),
        }


def _orders_table(orders: list[dict[str, Any]]) -> pa.Table:
    rows = [{**order, "ordered_at": order["ordered_at"].isoformat()} for order in orders]
    return pa.Table.from_pylist(rows)


def _corrections_table() -> pa.Table:
    """Return new states of some orders of the first day, and late orders."""
    orders = list(_orders(0))[::20]
    corrected = [{**order, "status": "corrected"} for order in orders]
    late = [{**order, "order_id": order["order_id"] + 50_000} for order in orders[:50]]
    return _build_table(corrected + late)


def _late_orders_table() -> pa.Table:
    """Return late orders of a few customers; the day was already erased for one of them."""
    orders = list(_orders(DAYS - 1))[:60]
    late = [
        {**order, "order_id": order["order_id"] + 60_000, "customer_id": number % 20 + 1}
        for number, order in enumerate(orders)
    ]
    return _build_table(late)


def _returns_table(part: int) -> pa.Table:
    returned = [order for order in _orders(part) if order["status"] == "returned"]
    columns = ("order_id", "customer_id", "amount")
    rows = [
        {
            "return_id": part * 100_000 + number,
            **{name: order[name] for name in columns},
            "state": "open",
        }
        for number, order in enumerate(returned)
    ]
    return _build_table(rows)


def _build_table(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist([{**row, "amount": Decimal(row["amount"])} for row in rows])
    index = table.column_names.index("amount")
    return table.set_column(index, "amount", table.column(index).cast(pa.decimal128(12, 2)))


def _items_table(batches: list[tuple[int, list[dict[str, Any]]]]) -> pa.Table:
    rows = [row for seed, orders in batches for row in _items(seed, orders)]
    table = pa.Table.from_pylist(rows)
    types = {"position": pa.int32(), "quantity": pa.int32(), "price": pa.decimal128(10, 2)}
    for name, kind in types.items():
        index = table.column_names.index(name)
        table = table.set_column(index, name, table.column(name).cast(kind, safe=False))
    return table


def _items(seed: int, orders: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    chance = random.Random(1000 + seed)  # noqa: S311 - sample rows
    for order in orders:
        for position in range(1, chance.randrange(2, 4)):
            yield {
                "order_id": order["order_id"],
                "position": position,
                "product": f"P-{chance.randrange(100, 400)}",
                "quantity": chance.randrange(1, 5),
                "price": chance.randrange(100, 9_000) / 100,
                "ordered_on": order["ordered_on"],
            }


def _events_table(part: int) -> pa.Table:
    chance = random.Random(2000 + part)  # noqa: S311 - sample rows
    start = datetime.combine(FIRST_DAY, datetime.min.time(), UTC)
    rows = [
        {
            "event_id": part * 100_000 + number,
            "kind": chance.choice(_EVENTS),
            "customer_id": chance.randrange(1, 600),
            "at": start + timedelta(hours=part * 4, seconds=number),
        }
        for number in range(3000)
    ]
    return pa.Table.from_pylist(rows)


def _telemetry_table(part: int) -> pa.Table:
    chance = random.Random(3000 + part)  # noqa: S311 - sample rows
    start = datetime.combine(FIRST_DAY, datetime.min.time(), UTC) + timedelta(minutes=5 * part)
    rows = [
        {
            "device_id": number % 50,
            "at": start + timedelta(seconds=number),
            "temperature": round(chance.gauss(21, 2), 2),
        }
        for number in range(300)
    ]
    return pa.Table.from_pylist(rows)


def _visits_table(night: int) -> pa.Table:
    chance = random.Random(4000 + night)  # noqa: S311 - sample rows
    rows = [
        {
            "day": FIRST_DAY - timedelta(days=back),
            "page": f"/p/{page}",
            "visits": chance.randrange(1, 5000),
        }
        for back in range(30)
        for page in range(40)
    ]
    return pa.Table.from_pylist(rows)
