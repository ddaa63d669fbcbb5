"""A table's rules for rows: Arrow and Spark decide and complete every row alike."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.actions.table import Metadata
from engine.commands.sql import parse_statement
from engine.errors import InvariantViolationError, SchemaMismatchError, UnsupportedFeatureError
from engine.expressions.evaluate import evaluate_arrow
from engine.operations.run import run
from engine.schema.types import (
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.snapshot.conform import target_type
from engine.snapshot.row_rules import RowRule, RuleParser
from engine.spark.columns import to_spark_schema
from engine.spark.failures import translate_spark_errors
from engine.spark.write.incoming_rows import IncomingRows
from engine.spark.write.table_rules import complete, enforce
from engine.storage.uri import open_store
from engine.table import DeltaTable

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
        for table_rule in RuleParser("t", schema).list_rules(Metadata(id="m"), schema.names)
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
def test_values_inside_collections_are_checked(column, kept, broken):
    apply = _plan_for(column)
    assert apply(kept) == kept
    for value in broken:
        with pytest.raises(InvariantViolationError, match="the type of n"):
            apply([value])


def _plan_for(column):
    schema = StructType((column,))
    plan = IncomingRows.plan("t", Metadata(id="m", schema_string=""), schema, schema, 0)

    def apply(values):
        array = pa.array(values, target_type(column.type))
        return plan.apply(pa.record_batch({"n": array})).column("n").to_pylist()

    return apply


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
    apply = _plan_for(column)
    assert apply(given) == stored
    with pytest.raises(InvariantViolationError):
        apply(broken)


@pytest.mark.parametrize(
    "kind",
    [ArrayType(LONG), MapType(STRING, LONG), ArrayType(StructType((StructField("k", LONG),)))],
    ids=str,
)
def test_collections_that_may_hold_anything_have_no_rule(kind):
    assert rules(StructType((_column(kind),))) == {}


def test_columns_and_fields_that_cannot_be_null_are_found_at_any_depth():
    assert list(rules()) == [
        "NOT NULL of id",
        "NOT NULL of s.k k",
        "NOT NULL of s.d.e",
        "NOT NULL of must",
        "NOT NULL of must.e",
        "the length of v (varchar(3))",
    ]


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


OWN_NOTATION = {"check", "check of a decimal", "check of a time", "char in the keys of a map"}
"""Cases whose messages show a value as JSON by Spark, which Python writes in another way."""


@dataclass(frozen=True)
class RuledTable:
    """A table of a key and one column `v`, with rows that it accepts and rows that it refuses.

    Attributes:
        columns: the definition of `v`, and of other columns.
        kept: given values with the values stored in the last column.
        broken: given values, each with words of the rule that it breaks.
        properties: the table's.
        given: the columns with given values.
    """

    columns: str
    kept: tuple = ()
    broken: tuple = ()
    properties: dict[str, str] = field(default_factory=dict)
    given: str = "v"


NAN = float("nan")
MIDNIGHT = datetime(2024, 1, 1)  # noqa: DTZ001 - of no zone
JUST_AFTER = MIDNIGHT + timedelta(microseconds=1)
CASES = {
    "not null": RuledTable("v BIGINT NOT NULL", (((0,), 0),), (((None,), "NOT NULL of v"),)),
    "not null text": RuledTable("v STRING NOT NULL", ((("",), ""),), (((None,), "NOT NULL of v"),)),
    "not null in a struct": RuledTable(
        "v STRUCT<a: INT NOT NULL, b: STRUCT<c: STRING NOT NULL>>",
        (((None,), None), (({"a": 1, "b": None},), {"a": 1, "b": None})),
        (
            (({"a": None, "b": None},), "NOT NULL of v.a"),
            (({"a": 1, "b": {"c": None}},), "NOT NULL of v.b.c"),
        ),
    ),
    "check": RuledTable(
        "v DOUBLE",
        (((1.5,), 1.5), ((NAN,), NAN), ((float("inf"),), float("inf"))),
        (((-0.0,), "constraint c"), ((None,), "constraint c"), ((-1e-300,), "constraint c")),
        {"delta.constraints.c": "v > 0"},
    ),
    "check of two columns": RuledTable(
        "v BIGINT, w BIGINT",
        (((1, 2), 2),),
        (((2, 1), "constraint c"), ((1, None), "constraint c")),
        {"delta.constraints.c": "w > v"},
        given="v w",
    ),
    "check of no column": RuledTable(
        "v BIGINT", (), (((1,), "constraint c"),), {"delta.constraints.c": "1 > 2"}
    ),
    "check of a text": RuledTable(
        "v STRING",
        ((("a'b",), "a'b"), (("",), "")),
        ((("a ",), "constraint a b"), ((None,), "constraint a b")),
        {"delta.constraints.a b": "v = rtrim(v)"},
    ),
    "check of a decimal": RuledTable(
        "v DECIMAL(5,2)",
        (((Decimal("0.01"),), Decimal("0.01")),),
        (((Decimal("999.99"),), "constraint c"),),
        {"delta.constraints.c": "v * 2 < 1000"},
    ),
    "check of a day": RuledTable(
        "v DATE",
        (((date(2024, 2, 29),), date(2024, 2, 29)),),
        (((date(1, 1, 1),), "constraint c"),),
        {"delta.constraints.c": "v >= DATE '1970-01-01'"},
    ),
    "check of a time": RuledTable(
        "v TIMESTAMP_NTZ",
        (((JUST_AFTER,), JUST_AFTER),),
        (((MIDNIGHT,), "constraint c"),),
        {"delta.constraints.c": "v > TIMESTAMP_NTZ '2024-01-01 00:00:00'"},
    ),
    "varchar": RuledTable(
        "v VARCHAR(3)",
        tuple(
            ((given,), stored)
            for given, stored in [
                ("abc   ", "abc"),
                ("\U0001f600é\u0301", "\U0001f600é\u0301"),
                ("    ", "   "),
                ("", ""),
                (None, None),
            ]
        ),
        tuple(((v,), "the length of v") for v in ("abcd ", "abc\t", "abc\u00a0", "\n\n\n\n")),
    ),
    "char": RuledTable(
        "v CHAR(3)",
        (
            (("a",), "a  "),
            (("",), "   "),
            (("é  ",), "é  "),
            (("\U0001f600    ",), "\U0001f600  "),
            ((None,), None),
        ),
        ((("abcd",), "the length of v"), (("abc\t",), "the length of v")),
    ),
    "char that cannot be null": RuledTable(
        "v CHAR(2) NOT NULL", ((("",), "  "),), (((None,), "NOT NULL of v"),)
    ),
    "char under a check": RuledTable(
        "v CHAR(2)",
        ((("b",), "b "),),
        ((("a",), "constraint c"),),
        {"delta.constraints.c": "v <> 'a'"},
    ),
    "varchar in an array": RuledTable(
        "v ARRAY<VARCHAR(2)>",
        (((["ab  ", None],), ["ab", None]), (([],), []), ((None,), None)),
        (((["ab", "abc"],), "the type of v"),),
    ),
    "char in a struct": RuledTable(
        "v STRUCT<t: CHAR(2), n: INT>",
        (
            (({"t": "a", "n": None},), {"t": "a ", "n": None}),
            (({"t": None, "n": 1},), {"t": None, "n": 1}),
            ((None,), None),
        ),
        ((({"t": "abc", "n": 1},), "the type of v"),),
    ),
    "char in the keys of a map": RuledTable(
        "v MAP<CHAR(2), VARCHAR(1)>",
        ((([("a", "x  "), ("b ", None)],), [("a ", "x"), ("b ", None)]), (([],), [])),
        ((([("abc", "x")],), "the type of v"), (([("a", "xy")],), "the type of v")),
    ),
    "structs in an array": RuledTable(
        "v ARRAY<STRUCT<k: INT NOT NULL, t: VARCHAR(1)>>",
        ((([{"k": 1, "t": "a "}, None],), [{"k": 1, "t": "a"}, None]),),
        (
            (([{"k": None, "t": "a"}],), "the type of v"),
            (([{"k": 1, "t": "ab"}],), "the type of v"),
        ),
    ),
    "default": RuledTable(
        "v BIGINT, w STRING DEFAULT 'it''s'",
        (((1,), "it's"),),
        properties={"delta.feature.allowColumnDefaults": "supported"},
    ),
    "default of a char": RuledTable(
        "v BIGINT, w CHAR(3) DEFAULT 'x'",
        (((1,), "x  "),),
        properties={"delta.feature.allowColumnDefaults": "supported"},
    ),
    "default that breaks a rule": RuledTable(
        "v BIGINT, w INT DEFAULT 7",
        broken=(((1,), "constraint c"),),
        properties={
            "delta.feature.allowColumnDefaults": "supported",
            "delta.constraints.c": "w < 7",
        },
    ),
    "generated": RuledTable(
        "v BIGINT, g BIGINT GENERATED ALWAYS AS (v * 2)", (((2,), 4), ((None,), None))
    ),
    "generated of a default": RuledTable(
        "v BIGINT, w INT DEFAULT 7, g BIGINT GENERATED ALWAYS AS (v + w)",
        (((2,), 9),),
        properties={"delta.feature.allowColumnDefaults": "supported"},
    ),
    "generated and given": RuledTable(
        "v DOUBLE, g DOUBLE GENERATED ALWAYS AS (v * 2)",
        (((1.0, 2.0), 2.0), ((NAN, NAN), NAN), ((None, None), None), ((0.0, -0.0), -0.0)),
        (
            ((1.0, None), "generation of g"),
            ((None, 1.0), "generation of g"),
            ((NAN, 1.0), "generation of g"),
        ),
        given="v g",
    ),
    "generated of a char": RuledTable(
        "v CHAR(3), g INT GENERATED ALWAYS AS (length(v))", ((("a",), 3), (("abc  ",), 3))
    ),
    "generated char": RuledTable(
        "v STRING, g CHAR(3) GENERATED ALWAYS AS (v)",
        ((("a",), "a  "), (("abc  ",), "abc"), ((None,), None)),
        ((("abcd",), "the length of g"),),
    ),
    "generated and given char": RuledTable(
        "v STRING, g CHAR(3) GENERATED ALWAYS AS (v)",
        ((("a", "a"), "a  "), (("a", "a  "), "a  ")),
        ((("a", "b"), "generation of g"),),
        given="v g",
    ),
    "generated that cannot be null": RuledTable(
        "v BIGINT, g BIGINT NOT NULL GENERATED ALWAYS AS (v)",
        (((1,), 1),),
        (((None,), "NOT NULL of g"),),
    ),
    "generated of another type": RuledTable(
        "v INT, g BIGINT GENERATED ALWAYS AS (CAST(v AS BIGINT))", (((2**31 - 1,), 2**31 - 1),)
    ),
}


def _complete_with_arrow(snapshot, data, rows):
    plan = IncomingRows.plan("t", snapshot.metadata, snapshot.schema, data, 0)
    return next(map(plan.apply, rows.to_batches()))


def _complete_with_spark(spark, snapshot, data, rows):
    schema, metadata = snapshot.schema, snapshot.metadata
    with translate_spark_errors("t"):
        frame = spark.createDataFrame(rows, to_spark_schema(data))
        frame = complete(frame, spark, "t", schema, 0)
        return enforce(frame, spark, "t", schema, metadata).toArrow()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_arrow_and_spark_complete_and_refuse_the_same_rows(spark, tmp_path):
    for name, case in CASES.items():
        quoted = {k: v.replace("'", "''") for k, v in case.properties.items()}
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in quoted.items())
        declared = f" TBLPROPERTIES ({properties})" if properties else ""
        table = DeltaTable(open_store(str(tmp_path / name)))
        run(parse_statement(f"CREATE TABLE t ({case.columns}) USING DELTA{declared}"), table, None)
        snapshot = table.snapshot()
        data = StructType(tuple(snapshot.schema.get(given) for given in case.given.split()))
        types = pa.schema([pa.field(f.name, target_type(f.type)) for f in data])

        def rows(*given, types=types):
            columns = zip(*given, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, types, strict=True)]
            return pa.Table.from_arrays(arrays, schema=types)

        if case.kept:
            given = rows(*(row for row, _ in case.kept))
            for completed in (
                _complete_with_arrow(snapshot, data, given),
                _complete_with_spark(spark, snapshot, data, given),
            ):
                assert completed.column_names == snapshot.schema.names
                last = completed.columns[-1].to_pylist()
                assert repr(last) == repr([stored for _, stored in case.kept]), name
        for row, words in case.broken:
            with pytest.raises(InvariantViolationError, match=words) as arrow:
                _complete_with_arrow(snapshot, data, rows(row))
            with pytest.raises(InvariantViolationError, match=words) as by_spark:
                _complete_with_spark(spark, snapshot, data, rows(row))
            assert type(arrow.value) is type(by_spark.value), (name, row)
            rules = [error.value.what.partition(": ")[0] for error in (arrow, by_spark)]
            assert rules[0] == rules[1], (name, row)
            if name not in OWN_NOTATION:
                assert arrow.value.what == by_spark.value.what, (name, row)


WIDENED = [
    ("byte", "long", [-128, 127, None], [-128, 127, None]),
    ("short", "integer", [-32768, 32767], [-32768, 32767]),
    ("integer", "long", [-(2**31), 2**31 - 1, None], [-(2**31), 2**31 - 1, None]),
    ("float", "double", [NAN, -0.0, None, 0.1], [NAN, -0.0, None, 0.10000000149011612]),
    (
        DecimalType(5, 2),
        DecimalType(9, 4),
        [Decimal("999.99"), Decimal("-0.01"), None],
        [Decimal("999.9900"), Decimal("-0.0100"), None],
    ),
    ("void", "string", [None], [None]),
]
NARROWED = [
    *(("long", "integer"), ("double", "float"), ("string", "long"), ("integer", "string")),
    *(("integer", "double"), ("date", "timestamp"), (DecimalType(5, 2), DecimalType(5, 1))),
]


def _plan_cast(given, declared):
    data, table = (
        StructType((StructField("v", PrimitiveType(k) if isinstance(k, str) else k),))
        for k in (given, declared)
    )
    return IncomingRows.plan("t", Metadata(id="m"), table, data, 0)


def test_given_rows_are_cast_to_wider_types_alone():
    for given, declared, values, stored in WIDENED:
        plan = _plan_cast(given, declared)
        kind = target_type(PrimitiveType(given) if isinstance(given, str) else given)
        rows = plan.apply(pa.record_batch({"v": pa.array(values, kind)}))
        assert repr(rows.column("v").to_pylist()) == repr(stored), (given, declared)
    for given, declared in NARROWED:
        with pytest.raises(SchemaMismatchError, match="The column v has the type"):
            _plan_cast(given, declared)
