"""A worker's results for pages and REST: differing rows, and column profiles."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.schema.types import StructType
from engine.snapshot.column_profile import ColumnProfile
from engine.snapshot.row_difference import RowDifference
from engine.snapshot.row_pairs import find_changed_cells
from lakeui.catalog import log_values
from lakeui.catalog.models import Preview
from lakeui.catalog.previews import DIFFERENT_ROWS, PREVIEW_COLUMNS
from workers.row_texts import column_texts, row_texts

_MOST_CHARACTERS = 4_000_000
"""Of all texts of an answer together."""
_PLACE = "\0place"  # no column has this name


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
