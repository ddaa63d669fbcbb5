"""The task that reads rows of a table for people: a preview, differing rows, or column profiles.

It needs no Spark and works within bounds. Values of any type become texts for a page.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings
from django.utils import timezone

from engine.schema.types import DataType, StructField, StructType, type_to_json
from engine.snapshot.bounded_rows import PERSON_BATCH_BYTES
from engine.snapshot.column_profile import ColumnProfile, profile_column
from engine.snapshot.row_difference import RowDifference, compare_rows
from engine.snapshot.row_pairs import find_changed_cells
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from lakeui.catalog import log_values
from lakeui.catalog.database_catalog import open_table_store
from lakeui.catalog.models import Preview
from lakeui.catalog.previews import (
    DIFFERENT_ROWS,
    PREVIEW_COLUMNS,
    PREVIEW_ROWS,
    PREVIEW_TEXT,
    forget_old_previews,
)
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.celery import app
from lakeui.task_names import PREVIEW_TABLE
from workers.reads import ReadTask, note_failure

_ANSWER = (
    "columns", "rows", "answer", "omitted_columns", "row_count", "file_count", "marked_rows", "error_code",
    "error_message", "read_at",
)  # fmt: skip

_MOST_CHARACTERS = 4_000_000
"""Of all texts of an answer together."""
_PLACE = "\0place"  # no column has this name


@app.task(name=PREVIEW_TABLE, base=ReadTask)
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
    store = open_table_store(place, options)
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


def write_difference(preview: Preview, difference: RowDifference, schema: StructType) -> None:
    """Put the first rows of each kind into the preview, in the order of their keys if it has any."""
    removed, added = (
        rows.slice(0, DIFFERENT_ROWS) for rows in (difference.removed, difference.added)
    )
    before, after = (
        rows.slice(0, DIFFERENT_ROWS) for rows in (difference.before, difference.after)
    )
    cells = find_changed_cells(before, after)
    shown = _choose_columns(schema, preview.keys, cells)
    fields = [schema.fields[place] for place in shown]
    names = [log_values.text(field.name) for field in fields]
    rows = [
        {"change": "removed", "before": texts, "after": None, "changed": []}
        for texts in row_texts(removed.select(shown))
    ]
    rows += [
        {"change": "added", "before": None, "after": texts, "changed": []}
        for texts in row_texts(added.select(shown))
    ]
    pairs = zip(row_texts(before.select(shown)), row_texts(after.select(shown)), strict=True)
    rows += [
        {
            "change": "changed",
            "before": old,
            "after": new,
            "changed": [name for name, at in zip(names, shown, strict=True) if cells[at][number]],
        }
        for number, (old, new) in enumerate(pairs)
    ]
    order = _order([removed, added, before], preview.keys)
    preview.rows = _limit_rows([rows[place] for place in order])
    preview.columns = column_texts(fields)
    preview.omitted_columns = len(schema.fields) - len(fields)
    preview.answer = {
        "compared_by": difference.compared_by.value,
        "removed": difference.removed_count,
        "added": difference.added_count,
        "changed": difference.before.num_rows,
        "is_whole": difference.is_whole,
        "repeated_keys": difference.repeated_keys,
        "dropped_columns": [log_values.text(name) for name in difference.dropped[:PREVIEW_COLUMNS]],
    }
    preview.file_count = difference.file_count


def write_profile(preview: Preview, profile: ColumnProfile, schema: StructType) -> None:
    """Write a column's profile into the preview."""
    column = schema.get(preview.profiled)
    bounds: list[str | None] = [None, None]
    if profile.bounds is not None:
        table = pa.table({"bound": profile.bounds})
        bounds = [row[0] for row in row_texts(table)]
    preview.columns = column_texts([column] if column else [])
    preview.answer = {
        "rows": profile.row_count,
        "nulls": profile.null_count,
        "distinct": profile.distinct_count,
        "least": bounds[0],
        "greatest": bounds[1],
        "is_whole": profile.is_whole,
    }


def _choose_columns(schema: StructType, keys: list[str], cells: list[np.ndarray]) -> list[int]:
    """Return the keys, the changed columns, then the first others; all in schema order."""
    key_names = {name.lower() for name in keys}
    places = range(len(schema.fields))
    keyed = [place for place in places if schema.fields[place].name.lower() in key_names]
    changed = [place for place in places if cells[place].any()]
    first = list(dict.fromkeys([*keyed, *changed, *places]))
    return sorted(first[:PREVIEW_COLUMNS])


def _order(tables: list[pa.Table], keys: list[str]) -> list[int]:
    """Return the indexes of all rows, sorted by the sortable keys."""
    rows = pa.concat_tables(tables)
    by_name = {name.lower(): name for name in rows.column_names}
    columns = [by_name[key.lower()] for key in keys]
    sortable = [name for name in columns if not pa.types.is_nested(rows.schema.field(name).type)]
    if not sortable:
        return list(range(rows.num_rows))
    # rows with equal keys keep their order: removed, added, changed
    given = rows.select(sortable).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    by = [(name, "ascending") for name in (*sortable, _PLACE)]
    order: list[int] = pc.sort_indices(given, sort_keys=by).to_pylist()
    return order


def _limit_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return as many of the first rows as fit."""
    left = _MOST_CHARACTERS
    for number, row in enumerate(rows):
        left -= sum(len(text or "") for text in (*(row["before"] or ()), *(row["after"] or ())))
        if left < 0:
            return rows[:number]
    return rows


def row_texts(rows: pa.Table) -> list[list[str | None]]:
    """Return every row as a list of texts, null for NULL."""
    shown = [_texts(rows.column(number)) for number in range(rows.num_columns)]
    return [list(row) for row in zip(*shown, strict=True)]


def column_texts(fields: Sequence[StructField]) -> list[dict[str, str]]:
    """Return the columns by name and type."""
    return [
        {"name": log_values.text(field.name), "type": _type_name(field.type)} for field in fields
    ]


def _type_name(kind: DataType) -> str:
    said = type_to_json(kind)
    return said if isinstance(said, str) else str(said["type"])


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    kind = column.type
    if pa.types.is_nested(kind):
        values = [_render_nested(value) for value in column]
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = [None if value is None else value.hex() for value in column.to_pylist()]
    else:
        values = column.cast(pa.string()).to_pylist()
    return [None if value is None else _cut(log_values.text(value)) for value in values]


def _render_nested(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return None
    try:
        plain = value.as_py()
    except (ValueError, OverflowError):  # Python's calendar ends with the year 9999
        plain = _convert_times(value)
    return json.dumps(plain, ensure_ascii=False, default=_plain_text)


def _plain_text(value: object) -> str:
    """Render a value without a JSON form; bytes in hex, as in a column of bytes."""
    return value.hex() if isinstance(value, bytes) else str(value)


def _convert_times(value: pa.Scalar) -> Any:  # noqa: ANN401 - JSON
    """Return a nested value with its dates and times as Arrow writes them."""
    if not value.is_valid:
        return None
    if pa.types.is_struct(value.type):
        return {name: _convert_times(inner) for name, inner in value.items()}
    if pa.types.is_nested(value.type):
        return [_convert_times(inner) for inner in value.values]
    return value.cast(pa.string()).as_py() if pa.types.is_temporal(value.type) else value.as_py()


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW_TEXT else text[: PREVIEW_TEXT - 1] + "…"
