"""The effect of a command that can remove rows or history, from the mirror alone.

It is shown before the command runs, beside a dry run: a dry run reads files, this reads the
database.
"""

from collections.abc import Iterator

from django.conf import settings
from django.db.models import Count, Max, Min, Sum
from django.utils.dateparse import parse_datetime

from engine.commands.model import (
    Command,
    Delete,
    Merge,
    Restore,
    Script,
    Update,
    Vacuum,
)
from engine.vocabulary import Removes
from engine.words import count_noun
from lakeui.catalog.command_tables import reads_itself
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job

_UNTIL_VACUUM = "Earlier versions keep them until VACUUM deletes their files."


def asks_name(command: Command, rehearsal: Job | None = None) -> bool:
    """Return whether a person must type the table's name before the command runs.

    They must if all rows, or history inside the retention, may go, and for a DELETE or UPDATE whose
    dry run counted more than the share of rows in `CONFIRM_ROW_SHARE`.
    """
    match command:
        case Script():
            return any(asks_name(step) for step in command.steps)
        case Delete() | Update():
            return not command.where or _changes_many(rehearsal)
        case Vacuum():
            return command.override_retention
        case Merge():
            return False
        case _:
            return command.removes_rows


def _changes_many(rehearsal: Job | None) -> bool:
    plan = rehearsal.plan if rehearsal else None
    if rehearsal is None or not plan or not plan.get("rows_are_counted"):
        return False
    rows, row_count = plan.get("rows"), rehearsal.table.row_count
    return bool(rows and row_count and rows > settings.CONFIRM_ROW_SHARE * row_count)


def row_impact(table: Table, command: Command) -> list[str]:
    """Return sentences; none for a command that removes neither rows nor history."""
    return list(_sentences(table, command)) if command.removes_rows else []


def _sentences(table: Table, command: Command) -> Iterator[str]:
    if isinstance(command, Script):
        count = sum(step.removes_rows for step in command.steps)
        yield f"{count_noun(count, 'step')} of {len(command.steps)} can remove rows or history."
        for step in command.steps:
            if step.table in ("", "t", table.name, table.uri):
                yield from row_impact(table, step)
    elif isinstance(command, Restore):
        yield from _describe_restore(table, command)
    elif isinstance(command, Vacuum):
        yield "Versions that need the deleted files can no longer be read or restored."
        yield "A dry run lists the files, their size and the versions."
    elif _removes_all(command):
        rows = (
            "all rows" if table.row_count is None else f"all {count_noun(table.row_count, 'row')}"
        )
        again = (
            ", and then writes the rows that the query selects"
            if reads_itself(command, table)
            else ""
        )
        files = count_noun(table.file_count, "file")
        yield f"This removes {rows} in {files}{again}. {_UNTIL_VACUUM}"
        if command.operation.replaces_table:
            yield "The columns, properties and partitioning of the table are also replaced."
    else:
        yield f"Matching rows are removed or changed. A dry run counts them. {_UNTIL_VACUUM}"


def _removes_all(command: Command) -> bool:
    if isinstance(command, Delete):
        return not command.where
    return command.operation.removes is Removes.ALL_ROWS


def _describe_restore(table: Table, command: Restore) -> Iterator[str]:
    version = command.version
    if version is None:
        version = _version_at(table, command.timestamp or "")
    if version is None or table.version is None:
        yield "A dry run shows the version."
        return
    undone = table.commits.filter(version__gt=version).order_by()
    sums = undone.aggregate(
        n=Count("pk"),
        writers=Count("user_name", distinct=True),
        first=Min("version"),
        last=Max("version"),
        rows=Sum("rows_added"),
        marked=Sum("rows_deleted_by_vectors"),
    )
    if not sums["n"]:
        yield "There is no later version, so nothing would be undone."
        return
    span = f"v{sums['first']}" if sums["n"] == 1 else f"v{sums['first']} to v{sums['last']}"
    yield f"Undoes {count_noun(sums['n'], 'version')}, {span}, of {count_noun(sums['writers'], 'writer')}."
    if sums["rows"]:
        yield (
            f"This removes up to {count_noun(sums['rows'], 'row')} written after that "
            f"version. {_UNTIL_VACUUM}"
        )
    if sums["marked"]:
        yield f"This restores {count_noun(sums['marked'], 'row')} deleted after that version."
    yield "RESTORE fails and changes nothing if VACUUM has deleted files of that version."


def _version_at(table: Table, text: str) -> int | None:
    try:
        at = parse_datetime(text)
    except ValueError:
        return None
    if at is None or at.tzinfo is None:
        return None
    before = table.commits.filter(committed_at__lte=at).order_by("-version")
    return before.values_list("version", flat=True).first()
