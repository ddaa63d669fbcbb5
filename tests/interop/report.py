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

`make interop` generates this page. It lets this engine and delta-spark take turns on the same tables:
one creates and writes a table, the other reads it, changes it (DELETE, UPDATE, MERGE, ALTER, OPTIMIZE,
VACUUM, depending on the feature) and hands it back. After every turn, both must read the same rows.
deltalake (Rust) and duckdb read every table that this engine can read, in its state after this
engine's turns; their own errors are listed.

Two concurrent compactions of deltalake 1.6.6 may both commit although both removed the same files; the
table then holds the rows twice. Run deltalake's compactions of a table one at a time. Of two concurrent
compactions of this engine, the conflict checks abort the second.

If the name of a table's directory contains `%` and two hexadecimal digits, such as `%20`, this engine
uses the name as it is. deltalake and duckdb decode it and look elsewhere. Avoid such names.

{versions}

- **rows agree**: after every turn of one side, the other side read exactly the same rows.
- **writes**: every statement of that side's turns succeeded. *Refuses some by name*: a statement was
  refused with an error that names the reason: a rule of the table (such as a constraint), or a feature
  that this engine does not support. Nothing was misread or damaged. The refusals are listed below.

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
    """Return one line without paths of this machine."""
    return _PLACE.sub("…/", " ".join(text.split()))[:300].replace("|", "\\|")
