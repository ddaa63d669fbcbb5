"""Columns and nested fields as written by people, in statements and in properties.

Dots separate the names along a path. A name with a dot or a backtick is in backticks.
"""

import re
from collections.abc import Iterable

ColumnPath = tuple[str, ...]

_WRITTEN_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^.`]+?))\s*(?:\.|\Z)")
_NAME = r"(?:`(?:[^`]|``)+`|[^`.,\s]+)"
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_PATHS = re.compile(rf"\s*{_PATH}\s*(?:,\s*{_PATH}\s*)*")


def column_path(text: str) -> ColumnPath:
    """Return the names along a column's path as written, without backticks.

    A text that is no path, such as one with a lonely backtick, is one name.
    """
    if "`" not in text:
        return tuple(text.split("."))
    names: list[str] = []
    at = 0
    while not names or text[at - 1] == ".":
        match = _WRITTEN_NAME.match(text, at)
        if match is None:
            return (text,)
        names.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
    return tuple(names)


def render_column_path(path: Iterable[str]) -> str:
    """Render a path for `column_path` to read back, quoting only names that need it."""
    return ".".join(map(_quote_in_path, path))


def parse_column_paths(text: str) -> tuple[ColumnPath, ...]:
    """Return the columns of a list such as ``a, b.c, `d.e`.f``.

    Raises:
        ValueError: a name is empty, or lacks necessary backticks.
    """
    if not text.strip():
        return ()
    if not _PATHS.fullmatch(text):
        msg = f"{text[:200]!r} is not a list of columns"
        raise ValueError(msg)
    return tuple(
        tuple(
            name[1:-1].replace("``", "`") if name.startswith("`") else name
            for name in re.findall(_NAME, path)
        )
        for path in re.findall(_PATH, text)
    )


def render_column_paths(paths: Iterable[ColumnPath]) -> str:
    """Write columns as such a list."""
    return ",".join(".".join(map(_quote_if_needed, path)) for path in paths)


def _quote_in_path(name: str) -> str:
    """Quote a name with dots or backticks, or with spaces around it, which `column_path` drops."""
    return _quote(name) if {".", "`"} & set(name) or name != name.strip() else name


def _quote_if_needed(name: str) -> str:
    return name if re.fullmatch(r"\w+", name, re.ASCII) else _quote(name)


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
