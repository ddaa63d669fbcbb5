"""Batches are bounded by decoded bytes, wherever the bytes come from."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.snapshot.bounded_rows import CellLimitError, dictionary_paths, iter_bounded

MIB = 2**20
TEXT = st.none() | st.text(max_size=12)
KINDS = {
    "text": (pa.string(), TEXT),
    "bytes": (pa.binary(), st.none() | st.binary(max_size=12)),
    "category": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "number": (pa.int64(), st.none() | st.integers(-5, 5)),
    "flag": (pa.bool_(), st.none() | st.booleans()),
    "list": (pa.list_(pa.string()), st.none() | st.lists(TEXT, max_size=3)),
    "map": (
        pa.map_(pa.string(), pa.string()),
        st.none()
        | st.dictionaries(st.text(max_size=3), TEXT, max_size=3).map(lambda d: [*d.items()]),
    ),
    "struct": (
        pa.struct({"a": pa.string(), "b": pa.list_(pa.struct({"c": pa.binary()}))}),
        st.none()
        | st.fixed_dictionaries(
            {
                "a": TEXT,
                "b": st.none()
                | st.lists(
                    st.none() | st.fixed_dictionaries({"c": st.none() | st.binary(max_size=5)}),
                    max_size=2,
                ),
            }
        ),
    ),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: values for name, (_, values) in KINDS.items()}), max_size=20
)
SCHEMA = pa.schema({name: kind for name, (kind, _) in KINDS.items()})


def write(rows, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", **options)
    return sink.getvalue()


def read(data, names, batch_bytes, batch_rows=1000):
    plain = pq.ParquetFile(pa.BufferReader(data))
    parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=dictionary_paths(plain))
    return list(iter_bounded(parquet, names, batch_rows, batch_bytes))


def references(count, size_bytes):
    """Return rows that all refer to one text."""
    return pa.DictionaryArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array(["a" * size_bytes])
    )


@given(ROWS, st.integers(4000, 8000), st.integers(1, 7))
def test_no_row_is_lost_or_changed_in_any_batch(rows, batch_bytes, group_rows):
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    for use_dictionary in (True, False):
        data = write(table, use_dictionary=use_dictionary, row_group_size=group_rows)
        batches = read(data, SCHEMA.names, batch_bytes)
        assert [row for batch in batches for row in batch.to_pylist()] == table.to_pylist()
        assert all(batch.num_rows == 1 or batch.nbytes <= 2 * batch_bytes for batch in batches)


def test_rows_that_refer_to_one_long_text_are_decoded_a_few_at_a_time():
    long = references(40, MIB)
    nested = pa.ListArray.from_arrays(pa.array(range(41), pa.int32()), long.dictionary_decode())
    wrapped = pa.StructArray.from_arrays([long], ["x"])
    options = {"dictionary_pagesize_limit": 1 << 30, "data_page_size": 1 << 30}
    for column in (long, nested, wrapped):
        data = write(pa.table({"a": column}), write_statistics=False, **options)
        assert len(data) < 10_000
        batches = read(data, ["a"], 4 * MIB)
        assert sum(batch.num_rows for batch in batches) == 40
        assert max(batch.nbytes for batch in batches) <= 4 * MIB


def test_a_row_beyond_the_bound_is_refused_with_its_column():
    rows = pa.table({"n": [1] * 4, "a": references(4, 3 * MIB)})
    data = write(rows, dictionary_pagesize_limit=1 << 30)
    with pytest.raises(CellLimitError) as refused:
        read(data, ["n", "a"], 2 * MIB)
    assert "3 MiB in its column a that must be read at once" in refused.value.what
    assert refused.value.remedy
    assert sum(batch.num_rows for batch in read(data, ["n"], 2 * MIB)) == 4


def test_a_chunk_that_unfolds_is_refused_before_it_is_decompressed():
    rows = pa.table({"a": ["a" * MIB] * 40})
    data = write(rows, use_dictionary=False, data_page_size=1 << 30)
    before = pa.total_allocated_bytes()
    with pytest.raises(CellLimitError):
        read(data, ["a"], 2 * MIB)
    assert pa.total_allocated_bytes() - before < MIB
