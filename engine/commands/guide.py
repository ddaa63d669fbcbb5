"""Parts of docs/sql.md generated from the grammar: `python -m engine.commands.guide`."""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.commands.sql import STATEMENTS, describe_syntax
from engine.commands.sql_alter import alter
from engine.commands.sql_refusals import list_refusals
from engine.expressions.arrow_functions import FUNCTIONS_OF_ARROW
from engine.expressions.functions import ALIASES, FOLDED, FUNCTIONS, GROUPS
from engine.expressions.operands import RESERVED
from engine.expressions.queries.functions import (
    AGGREGATES,
    ALIASES_OF_SEVERAL,
    WINDOW_FUNCTIONS,
)

_PART = re.compile(r"(<!-- from the grammar: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def fill_guide(guide: str) -> str:
    """Fill each marked part of the guide from the current grammar and tables.

    Raises:
        KeyError: a part is unknown.
    """
    return _PART.sub(lambda part: f"{part[1]}{_PARTS[part[2]]()}\n{part[4]}", guide)


def _grammar() -> str:
    readers = sorted(dict.fromkeys(STATEMENTS.values()), key=lambda read: read is alter)
    return "```\n" + "\n".join(map(describe_syntax, readers)) + "\n```"


def _functions() -> str:
    lines = [_line(f"**{title}**", (f.name for f in group)) for title, group in GROUPS.items()]
    lines += [
        _line("**Now**, one moment for the whole statement", FOLDED),
        _line("**Aggregates**, in queries", AGGREGATES),
        _line("**Windows**, in queries, in addition to the aggregates", WINDOW_FUNCTIONS),
    ]
    return "\n".join(lines)


def _line(title: str, names: Iterable[str]) -> str:
    return f"- {title}: {_join_names(names)}"


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _spark_alone() -> str:
    names = [name for name in FUNCTIONS if name not in FUNCTIONS_OF_ARROW]
    return f"Only Spark can evaluate these: {_join_names(names)}."


def _other_names() -> str:
    pairs = {**ALIASES, **ALIASES_OF_SEVERAL}
    shown = ", ".join(f"`{other}` for `{name}`" for other, name in pairs.items())
    return f"Other names: {shown}."


def _render_reserved() -> str:
    return f"Reserved: {_join_names(sorted(RESERVED))}."


def _render_refusals() -> str:
    """Render one row of the list of refused keywords for each reason."""
    words: dict[str, list[str]] = {}
    for word, (_, remedy) in list_refusals().items():
        words.setdefault(remedy, []).append(word)
    lines = []
    for remedy, group in words.items():
        what = list_refusals()[group[0]][0]
        lines.append(f"- {_join_names(group)}: {what} {remedy}")
    return "\n".join(lines)


_PARTS: dict[str, Callable[[], str]] = {
    "grammar": _grammar,
    "functions": _functions,
    "spark_alone": _spark_alone,
    "other_names": _other_names,
    "reserved": _render_reserved,
    "refused": _render_refusals,
}


def main() -> int:
    """Rewrite docs/sql.md; return 1 if it changed."""
    guide = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
    before = guide.read_text("utf-8")
    guide.write_text(fill_guide(before), "utf-8")
    return int(fill_guide(before) != before)


if __name__ == "__main__":
    sys.exit(main())
