"""Spark's metadata of CHAR and VARCHAR columns is read and written as Spark does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidSchemaError
from engine.expressions.parse import parse_condition
from engine.expressions.render import to_sql
from engine.schema.text_lengths import (
    TEXT_TYPE,
    char_length,
    drop_limits,
    has_limits,
    read_declared_type,
    render_declared_type,
    text_type,
)
from engine.schema.types import (
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_names = st.text(st.sampled_from("ab_ é1"), min_size=1, max_size=4)
_leaves = st.one_of(
    st.sampled_from([STRING, LONG, DecimalType(10, 2)]),
    st.builds(text_type, st.sampled_from(["char", "varchar"]), st.integers(1, 9)),
)


def _collections(inner):
    fields = st.lists(_names, min_size=1, max_size=3, unique_by=str.lower).flatmap(
        lambda names: st.tuples(*[st.builds(StructField, st.just(name), inner) for name in names])
    )
    return st.one_of(
        st.builds(ArrayType, inner), st.builds(MapType, inner, inner), st.builds(StructType, fields)
    )


@given(st.recursive(_leaves, _collections, max_leaves=6))
def test_a_declared_length_is_read_back(data_type):
    column = StructField(
        "c", drop_limits(data_type), metadata={TEXT_TYPE: render_declared_type(data_type)}
    )
    assert read_declared_type(column) == data_type
    assert not has_limits(column.type)


def test_fields_are_found_by_name_after_columns_were_added_or_dropped():
    now = StructType((StructField("New", STRING), StructField("KEPT", STRING)))
    column = StructField("c", now, metadata={TEXT_TYPE: "struct<gone:char(1),kept:varchar(2)>"})
    assert render_declared_type(read_declared_type(column)) == "struct<New:string,KEPT:varchar(2)>"


@pytest.mark.parametrize("text", ["array<", "array<char(1)>>", "struct<a>", "<", "map<char(1)>"])
def test_text_of_no_type_is_refused(text):
    with pytest.raises(InvalidSchemaError, match="not a valid declaration"):
        read_declared_type(StructField("c", STRING, metadata={TEXT_TYPE: text}))


def test_only_char_has_a_length_that_every_text_has():
    columns = [
        StructField("c", STRING, metadata={TEXT_TYPE: f"{kind}(3)"}) for kind in ("char", "varchar")
    ]
    assert [char_length(column) for column in [*columns, StructField("s", STRING)]] == [3, 0, 0]


@pytest.mark.parametrize(
    ("condition", "bound"),
    [
        ("c = 'a'", "c = 'a  '"),
        ("'a' <=> c", "'a  ' <=> c"),
        ("c IN ('a', 'abcd  ', s)", "c IN ('a  ', 'abcd', s)"),
        ("c = 'abc   '", "c = 'abc'"),
        ("c < d", "rpad(c, 5, ' ') < d"),
        ("c = s", "c = s"),
        ("s = 'a'", "s = 'a'"),
        ("c LIKE 'a'", "c LIKE 'a'"),
    ],
)
def test_a_char_column_is_compared_with_texts_filled_up_as_its_own_are(condition, bound):
    schema = StructType(
        (
            StructField("c", STRING, metadata={TEXT_TYPE: "char(3)"}),
            StructField("d", STRING, metadata={TEXT_TYPE: "char(5)"}),
            StructField("s", STRING),
        )
    )
    assert to_sql(parse_condition(condition, schema)) == to_sql(
        parse_condition(bound, StructType(tuple(StructField(f.name, STRING) for f in schema)))
    )
