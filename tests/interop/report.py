"""The results of a sweep as a page."""

import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.interop.sweep import Story, Sweep
from tests.interop.turns import DELTA, ENGINE

_PLACE = re.compile(r"(?:file:/*)?/[^\s'\"`]*/(?=[\w-]+-by-(?:engine|delta))")
_HEAD = """# Interoperability

Written by `make interop`, which lets this engine and delta-spark take turns at the same tables: one
makes a table and writes it, the other reads it, changes it (DELETE, UPDATE, MERGE, ALTER, OPTIMIZE,
VACUUM, as the feature asks) and hands it back. After every turn the two must read the same rows.
deltalake (Rust) and duckdb read every table that this engine can read, as it is after this engine's
turns; what they cannot read is theirs to say.

Two compactions of deltalake 1.6.6 that run at once may both commit, having removed the same files: the
rows are then there twice. This engine's conflict checks abort the second of two of its own. Run
deltalake's compactions of a table one at a time.

This engine finds a table whose directory's name holds `%20` or another `%` and two hexadecimal digits as
they are. deltalake and duckdb take them for an escaped character and look elsewhere. Avoid such names.

{versions}

- **rows agree**: after every turn of one side, the other read exactly its rows.
- **writes**: every statement of that side's turns was done. *Refuses some by name*: one was refused
  with an error that says why, as the table's rules ask (a row against a constraint) or because this
  engine does not do it; nothing was misread and nothing broken. The refusals are listed below.

| feature | made by | rows agree | this engine writes | delta-spark writes | deltalake reads | duckdb reads |
|---|---|---|---|---|---|---|
"""


MORE_READERS = "## More readers"
"""The part of the page that `test_more_readers` writes."""


def write_report(sweep: Sweep, place: Path) -> None:
    """Write the page."""
    lines = [_row(story) for story in sweep.stories.values()]
    notes = _notes(sweep.stories.values())
    text = _HEAD.format(versions=_versions(sweep)) + "\n".join(lines) + "\n" + notes
    _, title, more = place.read_text("utf-8").partition(MORE_READERS)
    place.write_text(text + (f"\n{title}{more}" if title else ""), "utf-8")


def _versions(sweep: Sweep) -> str:
    taking_part = {
        "delta-spark": f"{sweep.versions['delta-spark']} on Spark {sweep.versions['spark']}",
        "this engine": f"on Spark {version('pyspark')} and PyArrow {version('pyarrow')}",
        "deltalake": version("deltalake"),
        "duckdb": f"{version('duckdb')}, its delta extension {version('duckdb-extension-delta')}",
        "Java": sweep.versions["java"],
        "Python": platform.python_version(),
    }
    listed = "; ".join(f"{name} {text}" for name, text in taking_part.items())
    return f"Run on {datetime.now(UTC):%Y-%m-%d}: {listed}."


def _row(story: Story) -> str:
    readers = story.readers()
    cells = [
        story.case.feature,
        story.case.first,
        _agree(story),
        _writes(story, ENGINE),
        _writes(story, DELTA),
        *(_reads(readers.get(name)) for name in ("deltalake", "duckdb")),
    ]
    return "| " + " | ".join(cells) + " |"


def _agree(story: Story) -> str:
    if story.faults():
        return "**no**"
    return "refused by name" if story.disagreements() else "yes"


def _writes(story: Story, side: str) -> str:
    if story.find_unexpected(side):
        return "**fails**"
    if story.errors(side):
        return "refuses some by name"
    return "yes" if any(turn.side == side and turn.answer["steps"] for turn in story.turns) else "-"


def _reads(gaps: list[str] | None) -> str:
    if gaps is None:
        return "-"
    if not gaps:
        return "yes"
    return "other rows" if any(" rows against " in gap for gap in gaps) else "refuses"


def _notes(stories: Iterable[Story]) -> str:
    lines: list[str] = []
    for story in stories:
        name = f"{story.case.feature}, made by {story.case.first}"
        lines += [f"- {name}: {_plain(disagreement)}" for disagreement in story.disagreements()]
        for side in (ENGINE, DELTA):
            lines += [f"- {name}: {side}: {_plain(error)}" for error in story.errors(side)]
        for reader, gaps in story.readers().items():
            lines += [f"- {name}: {reader}: {_plain(gap)}" for gap in gaps[:1]]
    return "\n## What was refused or differs\n\n" + ("\n".join(lines) or "Nothing.") + "\n"


def _plain(text: str) -> str:
    """One line without places of this machine."""
    return _PLACE.sub("…/", " ".join(text.split()))[:300].replace("|", "\\|")
