"""Tasks for the page of a conflict: trials of fixes on a copy, and the rows both writes touched.

They need no Spark and work within bounds.
"""

from functools import partial

from django.conf import settings
from django.utils import timezone

from engine.clock import SystemClock
from engine.conflict_facts import TrialOutcome, Verdict
from engine.operations.trial import RecordedWrite, TrialLimits, try_write
from engine.snapshot.reader import ROW_INDEX
from engine.snapshot.row_lookup import read_rows_at
from engine.table import DeltaTable
from lakeui.catalog import log_values
from lakeui.catalog.database_catalog import open_table_store
from lakeui.catalog.previews import PREVIEW_COLUMNS
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.celery import app
from lakeui.conflicts.conflict_detail.sides import forget_old_rows
from lakeui.conflicts.conflict_detail.trials import (
    CONTROL,
    answer_text,
    changes_to_try,
    command_of_conflict,
    find_winning_commands,
)
from lakeui.conflicts.models import Conflict, ConflictRows, ConflictTrials
from lakeui.jobs.command_rules import readable_table
from lakeui.task_names import READ_CONFLICT_ROWS, TRY_FIXES
from workers.job_tables import open_table
from workers.preview import column_texts, row_texts
from workers.reads import ReadTask, note_failure

SECONDS = 20
"""All trials of a conflict together take no longer."""
_CLOCK = SystemClock()
_NOT_FAITHFUL = TrialOutcome(
    verdict=Verdict.UNDECIDABLE,
    why="the unchanged write did not conflict on a copy of the table, so a trial proves nothing",
)

_ANSWER = ("positions", "columns", "rows", "omitted_columns", "error_code", "error_message")


@app.task(name=TRY_FIXES, base=ReadTask)
def try_fixes(trials_id: int) -> None:
    """Try the fixes requested by a conflict's page, or record why they cannot be tried."""
    related = ("conflict__table", "conflict__job__requested_by", "conflict__transaction")
    trials = ConflictTrials.objects.select_related(*related).filter(pk=trials_id).first()
    if trials is None:
        return
    began = _CLOCK.monotonic_s()
    with note_failure(trials, "trying the fixes"):
        _try(trials)
    # a newer request, with another condition, gets its own answer
    ConflictTrials.objects.filter(pk=trials_id, asked_at=trials.asked_at).update(
        answers=trials.answers,
        error_code=trials.error_code,
        error_message=trials.error_message,
        read_at=timezone.now(),
        duration_ms=round((_CLOCK.monotonic_s() - began) * 1000),
    )


def _try(trials: ConflictTrials) -> None:
    """Try the original write first: if it does not conflict on the copy, nothing is proven."""
    conflict = trials.conflict
    write = _write_of(conflict)
    if write is None:
        return
    person = conflict.job.requested_by if conflict.job else None
    limits = TrialLimits(
        copied_bytes=settings.IN_PROCESS_BYTES,
        until_s=_CLOCK.monotonic_s() + SECONDS,
        clock=_CLOCK,
        resolve=lambda name: open_table(readable_table(name, person).uri),
    )
    attempt = partial(try_write, write, limits=limits)
    answers, untold = {}, None
    for kind, change in changes_to_try(conflict, trials.condition).items():
        began = _CLOCK.monotonic_s()
        tried = untold or attempt(change=change)
        answers[kind] = answer_text(tried, round((_CLOCK.monotonic_s() - began) * 1000))
        if kind == CONTROL and tried.verdict is not Verdict.CONFLICT:
            untold = tried if tried.verdict is Verdict.UNDECIDABLE else _NOT_FAITHFUL
    trials.answers = log_values.json_value(answers)


def _write_of(conflict: Conflict) -> RecordedWrite | None:
    table, command = conflict.table, command_of_conflict(conflict)
    if table is None or command is None or conflict.read_version is None:
        return None
    place = check_table_uri(table.uri)
    options = storage_options(place)
    return RecordedWrite(
        table=DeltaTable(
            open_table_store(place, options),
            storage_options=options,
            allowed_roots=settings.TABLE_ROOTS,
        ),
        command=command,
        read_version=conflict.read_version,
        winners=find_winning_commands(conflict),
    )


@app.task(name=READ_CONFLICT_ROWS, base=ReadTask)
def read_conflict_rows(rows_id: int) -> None:
    """Read the rows requested by a conflict's page, or record why they cannot be read."""
    forget_old_rows()
    conflict_rows = (
        ConflictRows.objects.select_related("conflict__table").filter(pk=rows_id).first()
    )
    if (
        conflict_rows is None
        or conflict_rows.conflict.table is None
        or conflict_rows.version is None
    ):
        return
    with note_failure(conflict_rows, "reading the rows"):
        _read(conflict_rows, conflict_rows.conflict.table.uri, conflict_rows.version)
    # drop the answer if the conflict was deleted or asked about anew
    ConflictRows.objects.filter(pk=rows_id, asked_at=conflict_rows.asked_at).update(
        read_at=timezone.now(), **{name: getattr(conflict_rows, name) for name in _ANSWER}
    )


def _read(conflict_rows: ConflictRows, uri: str, version: int) -> None:
    place = check_table_uri(uri)
    options = storage_options(place)
    store = open_table_store(place, options)
    table = DeltaTable(store, storage_options=options, allowed_roots=settings.TABLE_ROOTS)
    snapshot = table.snapshot(version=version)
    fields = snapshot.schema.fields[:PREVIEW_COLUMNS]
    rows = read_rows_at(
        snapshot, conflict_rows.path, conflict_rows.positions, [field.name for field in fields]
    )
    conflict_rows.positions = rows.column(ROW_INDEX).to_pylist()
    conflict_rows.columns = column_texts(fields)
    conflict_rows.rows = row_texts(rows.drop_columns([ROW_INDEX]))
    conflict_rows.omitted_columns = len(snapshot.schema.names) - len(fields)
