"""The task that reads the rows shared by two writes; without Spark, within bounds."""

from django.conf import settings
from django.utils import timezone

from engine.snapshot.reader import ROW_INDEX
from engine.snapshot.row_lookup import read_rows_at
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.previews import PREVIEW_COLUMNS
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.celery import app
from lakeui.conflicts.conflict_detail.row_values import forget_old_rows
from lakeui.conflicts.models import ConflictRows
from lakeui.task_names import READ_CONFLICT_ROWS
from workers.reads import note_failure
from workers.row_texts import column_texts, row_texts

_ANSWER = ("positions", "columns", "rows", "omitted_columns", "error_code", "error_message")


@app.task(name=READ_CONFLICT_ROWS)
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
    store = open_store(place, options)
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
