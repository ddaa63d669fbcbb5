"""Fills in defaults and codes in docs/operations.md: `python -m lakeui.local_stack.settings_guide`.

The guide describes each setting. Its default, and the existence of its row, follow from
`settings.py`; the meaning of an error code from its class.
"""

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "operations.md"
SETTINGS = ROOT / "lakeui" / "settings.py"
OF_THE_STACK = frozenset({"LAKEUI_EMBEDDED"})  # set by `manage.py up` for its children
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_CODES = re.compile(r"(<!-- from the errors -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def fill_guide(guide: str, settings: str) -> str:
    """Return the guide with current defaults and codes.

    Raises:
        KeyError: settings without a row, by name.
    """
    before, head, rest = guide.partition("## Settings\n")
    table, heading, after = rest.partition("\n### ")
    defaults = defaults_in(settings)
    if missing := sorted(defaults.keys() - {*re.findall(r"`([A-Z_]+)`", table)}):
        raise KeyError(*missing)
    rows = []
    for line in table.split("\n"):
        names = re.findall(r"`([A-Z_]+)`", line.split("|")[1]) if line.startswith("| `") else []
        rows.append(_row(line, [defaults.get(name) for name in names]))
    text = before + head + "\n".join(rows) + heading + after
    return _CODES.sub(lambda part: f"{part[1]}{_codes()}\n{part[3]}", text)


def defaults_in(settings: str) -> Mapping[str, str | None]:
    """Return each variable of the settings with its default in words; None if computed or empty."""
    defaults: dict[str, str | None] = {}
    for node in ast.walk(ast.parse(settings)):
        if _is_read(node):
            name = _value(node.args[0])
            if isinstance(name, str) and name not in OF_THE_STACK:
                defaults.setdefault(name, _describe_value(name, _default_of(node)))
    return defaults


def codes() -> Mapping[str, str]:
    """Return every error code of ours with its meaning: the first line of its class."""
    meanings: dict[str, str] = {}
    for house in ("engine", "lakeui", "workers"):
        for path in sorted((ROOT / house).rglob("*.py")):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if '"LAKE_' in text else ():
                if isinstance(node, ast.ClassDef) and (code := _code_of(node)):
                    meanings.setdefault(code, (ast.get_docstring(node) or "").split("\n")[0])
    return dict(sorted(meanings.items()))


def _code_of(node: ast.ClassDef) -> str:
    """Return the `code` of an error class, "" if it has none of ours."""
    given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
    for line in node.body:
        names = line.targets if isinstance(line, ast.Assign) else []
        if any(isinstance(name, ast.Name) and name.id == "code" for name in names):
            given.append(line.value)  # type: ignore[attr-defined]  # an assignment
    value = _value(given[0]) if given else ""
    return value if isinstance(value, str) and value.startswith("LAKE_") else ""


def _row(line: str, defaults: list[str | None]) -> str:
    """Return a row with current defaults; a cell in words stays if a default is computed."""
    literals = [default for default in defaults if default is not None]
    if not literals or len(literals) < len(defaults):
        return line
    start, names, _, rest = line.split("|", 3)
    return f"{start}|{names}| {', '.join(literals)} |{rest}"


def _codes() -> str:
    rows = [f"| `{code}` | {words} |" for code, words in codes().items()]
    return "\n".join(["| code | what it means |", "|---|---|", *rows])


def _is_read(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and bool(node.args)
    )


def _default_of(node: ast.Call) -> object:
    given = next((word.value for word in node.keywords if word.arg == "default"), None)
    return None if given is None else _value(given)


def _value(node: ast.expr) -> object:
    """Return the value of a constant, or of a product or power of some; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(left, int) and isinstance(right, int):
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Pow):
                return left**right
    return None


def _describe_value(name: str, value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        whole = int(value) if value == int(value) else value
        if "BYTES" in name and isinstance(whole, int):
            return next(
                (f"{whole // size} {unit}" for size, unit in _UNITS if whole and not whole % size),
                str(whole),
            )
        return str(whole)
    return value if isinstance(value, str) and value else None


if __name__ == "__main__":
    earlier = GUIDE.read_text("utf-8")
    GUIDE.write_text(fill_guide(earlier, SETTINGS.read_text("utf-8")), "utf-8")
    sys.exit(GUIDE.read_text("utf-8") != earlier)
