"""A dry run's plan, as lines to read."""

from collections.abc import Mapping

from lakeui.pages.units import format_bytes, format_count

_LONG = 20


def plan_lines(plan: object) -> list[tuple[str, str]]:
    """Numbers and short texts of the plan's first level, bytes in IEC; lists by their length."""
    if not isinstance(plan, Mapping):
        return []
    return [(_label(name), _text(name, value)) for name, value in plan.items() if value is not None]


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ").capitalize()


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return format_bytes(value) if "bytes" in name else format_count(value)
    if isinstance(value, list):
        short = all(isinstance(item, str | int) for item in value) and len(value) <= _LONG
        return ", ".join(map(str, value)) if short and value else format_count(len(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{_label(k).lower()} {_text(k, v)}" for k, v in value.items())
    return str(value)
