"""The task that reads some rows of a table for a page; without Spark, within bounds."""

import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings
from django.utils import timezone

from engine.snapshot.bounded_rows import PERSON_BATCH_BYTES
from engine.snapshot.column_profile import profile_column
from engine.snapshot.row_difference import compare_rows
from engine.snapshot.snapshot import Snapshot
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.models import Preview
from lakeui.catalog.previews import (
    PREVIEW_COLUMNS,
    PREVIEW_ROWS,
    forget_old_previews,
)
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.celery import app
from lakeui.task_names import PREVIEW_TABLE
from workers.reads import note_failure
from workers.row_answers import write_difference, write_profile
from workers.row_texts import column_texts, row_texts

_ANSWER = (
    "columns", "rows", "answer", "omitted_columns", "row_count", "file_count", "marked_rows", "error_code",
    "error_message", "read_at",
)  # fmt: skip


@app.task(name=PREVIEW_TABLE)
def preview_table(preview_id: int) -> None:
    """Read the rows of a preview, or record why they cannot be read."""
    forget_old_previews()
    preview = Preview.objects.select_related("table").filter(pk=preview_id).first()
    if preview is None:
        return
    with note_failure(preview, "reading the rows"):
        _read(preview)
    preview.read_at = timezone.now()
    # a newer request gets its own answer
    Preview.objects.filter(pk=preview.pk, asked_at=preview.asked_at).update(
        **{name: getattr(preview, name) for name in _ANSWER}
    )


def _read(preview: Preview) -> None:
    place = check_table_uri(preview.table.uri)
    options = storage_options(place)
    store = open_store(place, options)
    table = DeltaTable(store, storage_options=options, allowed_roots=settings.TABLE_ROOTS)
    snapshot = table.snapshot(version=preview.version)
    if preview.older_version is not None:
        difference = compare_rows(
            table, preview.older_version, preview.version, keys=preview.keys,
            condition=preview.where,
        )  # fmt: skip
        write_difference(preview, difference, snapshot.schema)
    elif preview.profiled:
        profile = profile_column(snapshot, preview.profiled, preview.where)
        write_profile(preview, profile, snapshot.schema)
    else:
        _read_rows(preview, snapshot)


def _read_rows(preview: Preview, snapshot: Snapshot) -> None:
    names = preview.wanted or snapshot.schema.names
    schema = snapshot.schema
    shown = [named.name for name in names[:PREVIEW_COLUMNS] if (named := schema.get(name))]
    batches = snapshot.iter_first_rows(
        names[:PREVIEW_COLUMNS], preview.where or None, PREVIEW_ROWS, PERSON_BATCH_BYTES
    )
    preview.rows = [texts for rows in batches for texts in row_texts(rows)]
    preview.columns = column_texts([field for name in shown if (field := schema.get(name))])
    preview.omitted_columns = len(names) - len(shown)
    _count(preview, snapshot.files())


def _count(preview: Preview, files: pa.Table) -> None:
    """Count the version's rows beyond the preview."""
    counts, vectors = files.column("num_records"), files.column("deletion_vector")
    marked = int(pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0)
    preview.file_count, preview.marked_rows = files.num_rows, marked
    if counts.null_count == 0:
        preview.row_count = int(pc.sum(counts).as_py() or 0) - marked
