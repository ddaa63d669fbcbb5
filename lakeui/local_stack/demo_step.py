"""A step of the demo lake's story, and common shapes of steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeui.local_stack.demo_data import schema_json


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
