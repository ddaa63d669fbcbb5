"""What rows are held to, as conditions; Arrow decides them here as Spark does when it writes."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.actions.table import Metadata
from engine.errors import InvariantViolationError, UnsupportedFeatureError
from engine.expressions.evaluate import evaluate_arrow
from engine.schema.types import LONG, STRING, ArrayType, MapType, StructField, StructType
from engine.snapshot.conform import target_type
from engine.spark.incoming_rows import IncomingRows
from engine.spark.nested_rules import value_keeps
from engine.spark.table_rules import RowRule, table_rules

TEXT = "__CHAR_VARCHAR_TYPE_STRING"
INVARIANT = "delta.invariants"
DEEP = StructType((StructField("e", LONG, nullable=False),))
SCHEMA = StructType(
    (
        StructField("id", LONG, nullable=False),
        StructField(
            "s",
            StructType(
                (
                    StructField("k k", LONG, nullable=False),
                    StructField("d", DEEP, nullable=True),
                )
            ),
        ),
        StructField("must", DEEP, nullable=False),
        StructField("v", STRING, metadata={TEXT: "varchar(3)"}),
        StructField("other", STRING, metadata={TEXT: "array<varchar(3)>"}),
    )
)
TABLE = pa.table(
    {
        "s": pa.array(
            [
                None,
                {"k k": 1, "d": None},
                {"k k": None, "d": {"e": 1}},
                {"k k": 1, "d": {"e": None}},
            ],
            pa.struct([("k k", pa.int64()), ("d", pa.struct([("e", pa.int64())]))]),
        ),
        "v": ["abc", None, "abcd", "äöü"],
    }
)


def rules(schema: StructType = SCHEMA) -> dict[str, RowRule]:
    return {
        table_rule.name: table_rule
        for table_rule in table_rules("t", schema, Metadata(id="m", schema_string=""))
    }


def _column(kind, text=""):
    return StructField("n", kind, metadata={TEXT: text} if text else {})


PAIR = StructType((StructField("k", LONG, nullable=False), StructField("t", STRING)))
NESTED = [
    (_column(ArrayType(LONG, contains_null=False)), [[1], None, []], [[1, None], [None]]),
    (_column(ArrayType(STRING), "array<varchar(2)>"), [["ab", None]], [["ab", "abc"]]),
    (
        _column(MapType(STRING, LONG, value_contains_null=False), "map<varchar(2),bigint>"),
        [[("ab", 1)]],
        [[("ab", None)], [("abc", 1)]],
    ),
    (
        _column(ArrayType(PAIR), "array<struct<k:bigint,t:varchar(1)>>"),
        [[{"k": 1, "t": "a"}, None]],
        [[{"k": None, "t": "a"}], [{"k": 1, "t": "ab"}]],
    ),
    (
        _column(StructType((StructField("t", STRING),)), "struct<T:varchar(1),gone:char(2)>"),
        [{"t": "a"}, {"t": None}, None],
        [{"t": "ab"}],
    ),
]


@pytest.mark.parametrize(("column", "kept", "broken"), NESTED, ids=range(len(NESTED)))
def test_what_collections_hold_is_checked(column, kept, broken):
    (rule,) = rules(StructType((column,))).values()
    assert all(value_keeps(value, rule.held) for value in kept)
    assert not any(value_keeps(value, rule.held) for value in broken)


SPACED = [
    (_column(STRING, "varchar(3)"), ["ab", "abc  ", "a    ", "äöü ", None, ""], ["abcd "]),
    (_column(ArrayType(STRING), "array<varchar(2)>"), [["ab  ", None], None], [["abc "]]),
    (
        _column(MapType(STRING, STRING), "map<varchar(1),varchar(2)>"),
        [[("a  ", "ab "), ("b", None)]],
        [[("a ", "x"), ("a  ", "y")]],
    ),
    (
        _column(StructType((StructField("t", STRING),)), "struct<t:varchar(1)>"),
        [{"t": "a "}, {"t": None}, None],
        [{"t": "ab "}],
    ),
]
CUT = [
    ["ab", "abc", "a  ", "äöü", None, ""],
    [["ab", None], None],
    [[("a", "ab"), ("b", None)]],
    [{"t": "a"}, {"t": None}, None],
]


@pytest.mark.parametrize(
    ("column", "given", "broken", "stored"),
    [(*spaced, stored) for spaced, stored in zip(SPACED, CUT, strict=True)],
    ids=range(len(SPACED)),
)
def test_spaces_beyond_a_length_are_cut_off(column, given, broken, stored):
    schema = StructType((column,))
    plan = IncomingRows.plan("t", Metadata(id="m", schema_string=""), schema, schema, 0)

    def rows(values):
        return pa.record_batch({"n": pa.array(values, target_type(column.type))})

    assert plan.apply(rows(given)).column("n").to_pylist() == stored
    with pytest.raises(InvariantViolationError):
        plan.apply(rows(broken))


@pytest.mark.parametrize(
    "kind",
    [ArrayType(LONG), MapType(STRING, LONG), ArrayType(StructType((StructField("k", LONG),)))],
    ids=str,
)
def test_collections_that_may_hold_anything_have_no_rule(kind):
    assert rules(StructType((_column(kind),))) == {}


def test_columns_and_fields_that_cannot_be_null_are_found_at_any_depth():
    by_name = rules()
    always = {name: rule.not_null for name, rule in by_name.items() if rule.condition is None}
    assert always == {
        "NOT NULL of id": ("id",),
        "NOT NULL of must": ("must",),
        "NOT NULL of must.e": ("must", "e"),
    }
    assert set(by_name) - set(always) == {
        "NOT NULL of s.k k",
        "NOT NULL of s.d.e",
        "the length of v (varchar(3))",
    }


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("NOT NULL of s.k k", [True, True, False, True]),
        ("NOT NULL of s.d.e", [True, True, True, False]),
        ("the length of v (varchar(3))", [True, True, False, True]),
    ],
)
def test_a_field_may_be_null_with_its_struct_and_text_is_counted_in_characters(name, kept):
    condition = rules()[name].condition
    assert pc.fill_null(evaluate_arrow(condition, TABLE), True).to_pylist() == kept


def test_an_invariant_of_a_field_is_held_to_or_refused_by_name():
    def schema(text: str) -> StructType:
        note = f'{{"expression":{{"expression":"{text}"}}}}'
        inside = StructType((StructField("n", LONG, metadata={INVARIANT: note}),))
        return StructType((StructField("s", inside),))

    (rule,) = rules(schema("s.n > 3")).values()
    table = pa.table({"s": [{"n": 3}, {"n": 4}, None]})
    assert evaluate_arrow(rule.condition, table).to_pylist() == [False, True, False]
    with pytest.raises(UnsupportedFeatureError, match=r"invariant of s\.n"):
        rules(schema("n > 3"))
