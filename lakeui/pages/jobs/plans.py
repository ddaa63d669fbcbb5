"""A dry run's plan, as a page shows it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from lakeui.catalog.units import format_bytes, format_count, format_duration

_LONG = 20
_SHOWN_FILES = 200
_APART = ("summary", "files", "running_writers", "rows_are_counted")


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan's view; `files` are the first of the plan's files, `file_count` is of all."""

    summary: str
    facts: list[tuple[str, str]]
    writers: list[str]
    files: list[Mapping[str, Any]]
    file_count: int


def plan_view(plan: object) -> PlanView | None:
    """Return the view of a plan; None without one."""
    if not isinstance(plan, Mapping) or not plan:
        return None
    listed = plan.get("files")
    files = [file for file in listed if isinstance(file, Mapping)] if _is_list(listed) else []
    writers = plan.get("running_writers")
    return PlanView(
        str(plan.get("summary") or ""),
        list(_facts(plan)),
        [str(writer) for writer in writers] if isinstance(writers, list) else [],
        files[:_SHOWN_FILES],
        plan["file_count"] if isinstance(plan.get("file_count"), int) else len(files),
    )


def plan_lines(plan: object) -> list[tuple[str, str]]:
    """Return a plan as a few lines of label and text."""
    view = plan_view(plan)
    if view is None:
        return []
    writers = [("Running writers", ", ".join(view.writers))] if view.writers else []
    return [("Plan", view.summary), *view.facts, *writers]


def _facts(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in plan.items():
        if name not in _APART and value not in (None, "", []):
            yield _label_in(plan, name), _text(name, value)


def _label_in(plan: Mapping[str, Any], name: str) -> str:
    if name == "rows":
        return "Rows that match" if plan.get("rows_are_counted") else "Rows in these files"
    return _label(name)


def _label(name: str) -> str:
    return _NAMES.get(name) or name.removesuffix("_bytes").replace("_", " ").capitalize()


_NAMES = {"file_count": "Files", "retention_hours": "Retention"}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, list):
        return _format_list(name, value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_label(k).lower()} {_text(k, v)}" for k, v in value.items())
    return str(value)


def _number(name: str, value: float) -> str:
    if "bytes" in name:
        return format_bytes(value)
    if name == "retention_hours":
        return f"{value:g} h" if value >= 1 else format_duration(value * 3_600_000)
    return f"v{value}" if name == "version" else format_count(value)


def _format_list(name: str, values: list[Any]) -> str:
    if name == "versions_lost":
        spans = [_format_versions(value) for value in values if _is_list(value)]
        more = f" and {format_count(len(spans) - _LONG)} more spans" if len(spans) > _LONG else ""
        return ", ".join(spans[:_LONG]) + more
    short = all(isinstance(item, str | int) for item in values) and len(values) <= _LONG
    return ", ".join(map(str, values)) if short else format_count(len(values))


def _format_versions(ends: list[Any]) -> str:
    first, last = ends[0], ends[-1]
    return f"v{first}" if first == last else f"v{first} to v{last}"


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and bool(value)
