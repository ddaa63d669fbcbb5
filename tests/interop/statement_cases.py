# ruff: noqa: S608 - statements are what is tested
"""Statements with delta-spark 4.4's results: the rows, or the class of the error.

`tests/engine/operations/test_statement_results.py` runs them here, `test_statements.py` asks
delta-spark whether the outcomes still are its own. Tables have rows in Python: a struct is a dict, an
array a list, a map a list of pairs.
"""

from dataclasses import dataclass
from typing import Any

Rows = tuple[tuple[Any, ...], ...]
EVOLVING = "MERGE WITH SCHEMA EVOLUTION INTO {t} AS t USING {s} AS s ON t.id = s.id "
MERGE = "MERGE INTO {t} AS t USING {s} AS s ON t.id = s.id "
UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
UPDATED = "WHEN MATCHED THEN UPDATE SET v = s.v"
ARITY = "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
FIELDS = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
METADATA = "DELTA_METADATA_MISMATCH"
OVERFLOW = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
OVERFLOW_OF_INSERT = "CAST_OVERFLOW_IN_TABLE_INSERT"
_BROKEN = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
_EXPLICIT = "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
_TOLD_BY_TEXT = {
    "DELTA_CONFLICT_SET_COLUMN",
    "DELTA_DUPLICATE_COLUMNS_ON_INSERT",
    "MERGE_INSERT_VALUE_COUNT_MISMATCH",
}


@dataclass(frozen=True)
class Statement:
    """A statement on a table, with a second table as its source.

    Attributes:
        name: of its test and of its directory.
        text: the statement; `{t}` is the table, `{s}` the source.
        table: the table's columns.
        rows: what it holds.
        source: the source's columns.
        source_rows: what it holds.
        leaves: what the table holds after it, as lines of JSON (`tests.interop.rows`).
        refused: or the class of the error by which delta-spark refuses it.
        ours: the class of this engine's error, where delta-spark does it or names another class.
        properties: the table's, besides deletion vectors.
    """

    name: str
    text: str
    table: str
    rows: Rows
    source: str = ""
    source_rows: Rows = ()
    leaves: tuple[str, ...] = ()
    refused: str = ""
    ours: str = ""
    properties: str = ""

    @property
    def expected(self) -> object:
        """Return the rows that this engine leaves, or the class of its error."""
        return self.ours or self.refused or self.leaves

    @property
    def needs_spark(self) -> bool:
        """Return whether this engine uses Spark: for rows of a table, and where Arrow differs from Spark."""
        if self.expected in _TOLD_BY_TEXT:
            return "{s}" in self.text and self.expected == "DELTA_CONFLICT_SET_COLUMN"
        value = self.refused in {"CAST_INVALID_INPUT", OVERFLOW, OVERFLOW_OF_INSERT}
        number = "v = CAST(TIMESTAMP" in self.text or "(1, CAST(TIMESTAMP" in self.text
        return (
            "{s}" in self.text
            or " IN ((" in self.text
            or self.refused in {_BROKEN, _EXPLICIT}
            or "STRUCT<" in self.table
            or value
            or (number and self.table == "id INT, v INT")
        )


@dataclass(frozen=True)
class _Shape:
    """A column of a shape, and the same column with other fields in the source."""

    name: str
    table: str
    value: Any
    variants: tuple[tuple[str, str, Any], ...]


AB, A, BA, ABC = ({"a": 1, "b": 2}, {"a": 10}, {"b": 20, "a": 10}, {"a": 10, "b": 20, "c": 30})
T_AB, T_A = "STRUCT<a: INT, b: INT>", "STRUCT<a: INT>"
T_BA, T_ABC = "STRUCT<b: INT, a: INT>", "STRUCT<a: INT, b: INT, c: INT>"


def _type_of_shape(shape: str, text: str) -> str:
    return {"struct": text, "array": f"ARRAY<{text}>", "map": f"MAP<STRING, {text}>"}[shape]


def _value_in_shape(shape: str, value: dict[str, int]) -> Any:
    return {"struct": value, "array": [value], "map": [("k", value)]}[shape]


def _line(shape: str, key: int, *values: int | None) -> str:
    shown = "[" + ", ".join("null" if v is None else str(v) for v in values) + "]"
    inside = {"struct": shown, "array": f"[{shown}]", "map": f'[["k", {shown}]]'}[shape]
    return f"[{key}, {inside}]"


def _struct_cases(shape: str) -> tuple[Statement, ...]:
    """Return cases of struct fields by name: in another order, fewer, or more in the source."""

    def one(name: str, text: str, given: tuple[str, dict[str, int]], *keys: int, **more: Any):
        kind, value = given
        return Statement(
            f"{shape} {name}",
            text,
            f"id INT, v {_type_of_shape(shape, T_AB)}",
            ((1, _value_in_shape(shape, AB)),),
            f"id INT, v {_type_of_shape(shape, kind)}",
            tuple((key, _value_in_shape(shape, value)) for key in (keys or (1, 2))),
            **more,
        )

    def lines(*rows: tuple[int | None, ...]) -> tuple[str, ...]:
        return tuple(sorted(_line(shape, row[0] or 0, *row[1:]) for row in rows))

    order, fewer, more = (T_BA, BA), (T_A, A), (T_ABC, ABC)
    kept = 2 if shape == "struct" else None
    return (
        one("order upsert", MERGE + UPSERT, order, leaves=lines((1, 10, 20), (2, 10, 20))),
        one("order update", MERGE + UPDATED, order, leaves=lines((1, 10, 20))),
        one(
            "order insert",
            "INSERT INTO {t} SELECT * FROM {s}",
            order,
            leaves=lines((1, 1, 2), (1, 10, 20), (2, 10, 20)),
        ),
        one("fewer upsert", MERGE + UPSERT, fewer, refused=FIELDS),
        one("fewer update", MERGE + UPDATED, fewer, refused=FIELDS),
        one("fewer insert", "INSERT INTO {t} SELECT * FROM {s}", fewer, refused=ARITY),
        one("fewer by name", "INSERT INTO {t} BY NAME SELECT * FROM {s}", fewer, refused=ARITY),
        one(
            "fewer evolving upsert",
            EVOLVING + UPSERT,
            fewer,
            leaves=lines((1, 10, kept), (2, 10, None)),
        ),
        one("fewer evolving update", EVOLVING + UPDATED, fewer, leaves=lines((1, 10, None))),
        one("more upsert", MERGE + UPSERT, more, refused=FIELDS),
        one("more insert", "INSERT INTO {t} SELECT * FROM {s}", more, refused=METADATA),
        one(
            "more evolving upsert",
            EVOLVING + UPSERT,
            more,
            leaves=lines((1, 10, 20, 30), (2, 10, 20, 30)),
        ),
        one(
            "more evolving insert",
            "INSERT WITH SCHEMA EVOLUTION INTO {t} SELECT * FROM {s}",
            more,
            2,
            leaves=lines((1, 1, 2, None), (2, 10, 20, 30)),
        ),
    )


_FIELD = {"table": f"id INT, v {T_AB}", "rows": ((1, None),)}
STRUCTS = (
    *_struct_cases("struct"),
    *_struct_cases("array"),
    *_struct_cases("map"),
    Statement("a field of null", "UPDATE {t} SET v.a = 5", leaves=("[1, [5, null]]",), **_FIELD),
    Statement("a struct of null", "UPDATE {t} SET v = NULL", leaves=("[1, null]",), **_FIELD),
    Statement(
        "null for a struct, field by field",
        EVOLVING + UPSERT,
        f"id INT, v {T_AB}",
        ((1, AB),),
        f"id INT, v {T_A}",
        ((1, None), (2, None)),
        ("[1, [null, 2]]", "[2, null]"),
    ),
    Statement(
        "fields at depth",
        EVOLVING + UPSERT,
        f"id INT, v STRUCT<x: INT, n: {T_AB}>",
        ((1, {"x": 1, "n": AB}),),
        f"id INT, v STRUCT<x: INT, n: {T_A}>",
        ((1, {"x": 9, "n": A}), (2, {"x": 9, "n": A})),
        ("[1, [9, [10, 2]]]", "[2, [9, [10, null]]]"),
    ),
    Statement(
        "as many fields under other names",
        "INSERT INTO {t} SELECT * FROM {s}",
        f"id INT, v {T_AB}",
        (),
        "id INT, v STRUCT<a: INT, c: INT>",
        ((1, {"a": 1, "c": 3}),),
        ("[1, [1, 3]]",),
        ours=METADATA,
    ),
    Statement(
        "one struct for another",
        "UPDATE {t} SET v = w",
        f"id INT, v {T_AB}, w {T_BA}",
        ((1, AB, BA),),
        leaves=("[1, [10, 20], [20, 10]]",),
    ),
)

_GENERATED: dict[str, Any] = {
    "table": "id INT, a INT, g INT GENERATED ALWAYS AS (a * 2)",
    "rows": ((1, 1, 2), (2, 2, 4), (3, 3, 6)),
    "source": "id INT, a INT",
    "source_rows": ((1, 10), (2, 20), (9, 90)),
}
GENERATED = (
    Statement(
        "generated anew by each clause",
        MERGE + "WHEN MATCHED AND t.id = 1 THEN UPDATE SET a = s.a"
        " WHEN MATCHED THEN UPDATE SET a = s.a, g = s.a * 2"
        " WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a)"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 0",
        leaves=("[1, 10, 20]", "[2, 20, 40]", "[3, 0, 0]", "[9, 90, 180]"),
        **_GENERATED,
    ),
    Statement(
        "generated value set by one clause",
        MERGE + "WHEN MATCHED AND t.id = 1 THEN UPDATE SET g = 2"
        " WHEN MATCHED THEN UPDATE SET a = s.a",
        leaves=("[1, 1, 2]", "[2, 20, 40]", "[3, 3, 6]"),
        **_GENERATED,
    ),
    Statement(
        "generated value that is wrong",
        MERGE + "WHEN MATCHED AND t.id = 1 THEN UPDATE SET a = s.a"
        " WHEN MATCHED THEN UPDATE SET g = 5",
        refused="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        **_GENERATED,
    ),
    Statement(
        "defaults where clauses set other columns",
        MERGE + "WHEN MATCHED THEN UPDATE SET a = s.a"
        " WHEN NOT MATCHED AND s.id = 9 THEN INSERT (id) VALUES (s.id)"
        " WHEN NOT MATCHED THEN INSERT (id, d) VALUES (s.id, 7)",
        "id INT, a INT, d INT DEFAULT 42",
        ((1, 1, 1),),
        "id INT, a INT",
        ((1, 10), (8, 80), (9, 90)),
        ("[1, 10, 1]", "[8, null, 7]", "[9, null, 42]"),
        properties="'delta.feature.allowColumnDefaults' = 'supported'",
    ),
)

_PLAIN: dict[str, Any] = {
    "table": "id INT, a INT, b INT",
    "rows": ((1, 1, 1), (2, 2, 2)),
    "source": "id INT, a INT",
    "source_rows": ((1, 10), (9, 90)),
}
_RANDOM = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
_RANDOM_SPARK = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
STRICT = (
    Statement("too few values", "INSERT INTO {t} VALUES (5, 5)", refused=ARITY, **_PLAIN),
    Statement("too few columns", "INSERT INTO {t} SELECT id, a FROM {s}", refused=ARITY, **_PLAIN),
    Statement("a narrower table", "INSERT INTO {t} TABLE {s}", refused=ARITY, **_PLAIN),
    Statement("too few for all", "INSERT OVERWRITE {t} VALUES (5, 5)", refused=ARITY, **_PLAIN),
    Statement(
        "too many values",
        "INSERT INTO {t} VALUES (5, 5, 5, 5)",
        refused=METADATA,
        ours=ARITY,
        **_PLAIN,
    ),
    Statement(
        "some columns by name",
        "INSERT INTO {t} (b, id) VALUES (5, 6)",
        leaves=("[1, 1, 1]", "[2, 2, 2]", "[6, null, 5]"),
        **_PLAIN,
    ),
    Statement(
        "DELETE at random",
        "DELETE FROM {t} WHERE rand() < 2",
        refused=_RANDOM_SPARK,
        ours=_RANDOM,
        **_PLAIN,
    ),
    Statement(
        "UPDATE at random",
        "UPDATE {t} SET a = 5 WHERE rand() < 2",
        refused=_RANDOM_SPARK,
        ours=_RANDOM,
        **_PLAIN,
    ),
    Statement(
        "REPLACE at random",
        "INSERT INTO {t} REPLACE WHERE rand() < 2 VALUES (5, 5, 5)",
        refused=_RANDOM_SPARK,
        ours=_RANDOM,
        **_PLAIN,
    ),
    *(
        Statement(f"MERGE at random: {name}", text, refused=_RANDOM, **_PLAIN)
        for name, text in (
            (
                "on",
                MERGE.replace("= s.id", "= s.id AND rand() < 2") + "WHEN MATCHED THEN DELETE",
            ),
            ("matched", MERGE + "WHEN MATCHED AND rand() < 2 THEN UPDATE SET a = s.a"),
            (
                "not matched",
                MERGE + "WHEN NOT MATCHED AND rand() < 2 THEN INSERT (id) VALUES (s.id)",
            ),
            ("by source", MERGE + "WHEN NOT MATCHED BY SOURCE AND rand() < 2 THEN DELETE"),
        )
    ),
    Statement(
        "a column set twice",
        "UPDATE {t} SET a = 1, A = 2",
        refused="DELTA_CONFLICT_SET_COLUMN",
        **_PLAIN,
    ),
    Statement(
        "a column set twice in a clause",
        MERGE + "WHEN MATCHED THEN UPDATE SET a = 1, t.a = 2",
        refused="DELTA_CONFLICT_SET_COLUMN",
        **_PLAIN,
    ),
    Statement(
        "a struct and its field",
        "UPDATE {t} SET v = NULL, v.a = 1",
        refused="DELTA_CONFLICT_SET_COLUMN",
        **_FIELD,
    ),
    Statement(
        "a field of a new row",
        MERGE + "WHEN NOT MATCHED THEN INSERT (id, v.a) VALUES (s.id, 1)",
        source="id INT",
        source_rows=((2,),),
        refused="DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
        **_FIELD,
    ),
)

_NEW: dict[str, Any] = {
    "table": "id INT, a INT",
    "rows": ((1, 1), (2, 2)),
    "source": "id INT, a INT, x INT, y STRING",
    "source_rows": ((1, 10, 100, "p"), (2, 20, 200, "q"), (9, 90, 900, "r")),
}
_INTO = "INSERT WITH SCHEMA EVOLUTION INTO {t} "
_OVER = "INSERT WITH SCHEMA EVOLUTION OVERWRITE {t} "
_ALL_NEW = ('[1, 10, 100, "p"]', '[2, 20, 200, "q"]', '[9, 90, 900, "r"]')
EVOLUTION = (
    Statement(
        "a clause sets a new column",
        EVOLVING + "WHEN MATCHED THEN UPDATE SET x = s.a + 1",
        leaves=("[1, 1, 11]", "[2, 2, 21]"),
        **_NEW,
    ),
    Statement(
        "two clauses add two columns",
        EVOLVING + "WHEN MATCHED THEN UPDATE SET x = s.x"
        " WHEN NOT MATCHED THEN INSERT (id, y) VALUES (s.id, s.y)",
        leaves=("[1, 1, 100, null]", "[2, 2, 200, null]", '[9, null, null, "r"]'),
        **_NEW,
    ),
    Statement(
        "two clauses of matches add two columns",
        EVOLVING + "WHEN MATCHED AND t.id = 1 THEN UPDATE SET x = s.x"
        " WHEN MATCHED THEN UPDATE SET y = s.y",
        leaves=("[1, 1, 100, null]", '[2, 2, null, "q"]'),
        **_NEW,
    ),
    Statement(
        "a column that neither side has",
        EVOLVING + "WHEN MATCHED THEN UPDATE SET z = s.x",
        refused="DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ours="UNRESOLVED_COLUMN",
        **_NEW,
    ),
    Statement(
        "a clause sets a new field",
        EVOLVING + "WHEN MATCHED THEN UPDATE SET v.c = s.v.c",
        "id INT, v STRUCT<a: INT>",
        ((1, {"a": 1}),),
        "id INT, v STRUCT<a: INT, c: INT, d: INT>",
        ((1, {"a": 10, "c": 30, "d": 40}),),
        ("[1, [1, 30]]",),
    ),
    Statement(
        "new columns by name",
        _INTO + "BY NAME SELECT id, x FROM {s} WHERE id = 9",
        leaves=("[1, 1, null]", "[2, 2, null]", "[9, null, 900]"),
        **_NEW,
    ),
    Statement(
        "new columns by position",
        _INTO + "SELECT * FROM {s} WHERE id = 9",
        leaves=("[1, 1, null, null]", "[2, 2, null, null]", '[9, 90, 900, "r"]'),
        **_NEW,
    ),
    Statement("too few columns all the same", _INTO + "SELECT id FROM {s}", refused=ARITY, **_NEW),
    Statement("new columns for all rows", _OVER + "SELECT * FROM {s}", leaves=_ALL_NEW, **_NEW),
    Statement(
        "new columns for some rows",
        _INTO + "REPLACE WHERE id = 1 SELECT * FROM {s} WHERE id = 1",
        leaves=('[1, 10, 100, "p"]', "[2, 2, null, null]"),
        **_NEW,
    ),
    Statement(
        "a wider type",
        EVOLVING + UPSERT,
        "id INT, a INT",
        ((1, 1),),
        "id INT, a BIGINT",
        ((1, 5_000_000_000),),
        ("[1, 5000000000]",),
        properties="'delta.enableTypeWidening' = 'true'",
    ),
)

_IDENTITY = "id BIGINT GENERATED ALWAYS AS IDENTITY, v INT"
RULES = (
    Statement(
        "a constraint that is there",
        "ALTER TABLE {t} ADD CONSTRAINT Pos CHECK (id > 5)",
        "id INT",
        (),
        properties="'delta.constraints.pos' = 'id > 0'",
        refused="DELTA_CONSTRAINT_ALREADY_EXISTS",
    ),
    Statement(
        "a constraint that a row breaks",
        "ALTER TABLE {t} ADD CONSTRAINT big CHECK (id > 5)",
        "id INT",
        ((1,),),
        refused=_BROKEN,
    ),
    Statement(
        "a constraint that is null for a row",
        "ALTER TABLE {t} ADD CONSTRAINT big CHECK (id > 5)",
        "id INT",
        ((None,),),
        refused=_BROKEN,
    ),
    Statement(
        "a constraint that is no condition",
        "ALTER TABLE {t} ADD CONSTRAINT big CHECK (id + 1)",
        "id INT",
        (),
        refused="DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
    ),
    Statement(
        "null where there is none",
        "INSERT INTO {t} VALUES (1, NULL)",
        "id INT, v INT NOT NULL",
        (),
        refused="DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    ),
    Statement(
        "null set where there is none",
        "UPDATE {t} SET v = NULL",
        "id INT, v INT NOT NULL",
        ((1, 1),),
        refused="DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    ),
    Statement(
        "an identity column set",
        "UPDATE {t} SET id = 5",
        _IDENTITY,
        (),
        refused="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
    ),
    Statement(
        "an identity column inserted",
        "INSERT INTO {t} VALUES (5, 5)",
        _IDENTITY,
        (),
        refused=_EXPLICIT,
    ),
    Statement(
        "a column inserted twice",
        MERGE + "WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)",
        refused="DELTA_DUPLICATE_COLUMNS_ON_INSERT",
        **_PLAIN,
    ),
    Statement(
        "too few values in a clause",
        MERGE + "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id)",
        refused="MERGE_INSERT_VALUE_COUNT_MISMATCH",
        **_PLAIN,
    ),
)

_WORDS: dict[str, Any] = {
    "table": "id INT, s STRING, v INT",
    "rows": ((1, "ann", 10), (2, "Bob", None), (3, None, -5), (4, "a%b", 0)),
    "source": "id INT, v INT",
    "source_rows": ((1, 100), (9, 90)),
}
_ONE, _TWO, _THREE, _FOUR = '[1, "ann", 10]', '[2, "Bob", null]', "[3, null, -5]", '[4, "a%b", 0]'


def _build_statement(name: str, text: str, *leaves: str) -> Statement:
    return Statement(name, text, leaves=leaves, **_WORDS)


SPELLINGS = (
    _build_statement(
        "LIKE ANY",
        "UPDATE {t} SET v = 1 WHERE s LIKE ANY ('a%', 'B%')",
        *('[1, "ann", 1]', '[2, "Bob", 1]', _THREE, '[4, "a%b", 1]'),
    ),
    _build_statement(
        "NOT LIKE ANY",
        "UPDATE {t} SET v = 1 WHERE s NOT LIKE ANY ('a%', '%n')",
        *(_ONE, '[2, "Bob", 1]', _THREE, '[4, "a%b", 1]'),
    ),
    _build_statement(
        "NOT LIKE ALL",
        "UPDATE {t} SET v = 1 WHERE s NOT LIKE ALL ('a%', '%n')",
        *(_ONE, '[2, "Bob", 1]', _THREE, _FOUR),
    ),
    _build_statement(
        "words in brackets",
        "UPDATE {t} SET v = POSITION('n' IN s) + EXTRACT(YEAR FROM DATE '2024-02-29'),"
        " s = SUBSTRING(s FROM 2 FOR 2) WHERE id = 1",
        *('[1, "nn", 2026]', _TWO, _THREE, _FOUR),
    ),
    _build_statement(
        "casts by name",
        "UPDATE {t} SET v = int('7'), s = string(v) WHERE id = 1",
        *('[1, "10", 7]', _TWO, _THREE, _FOUR),
    ),
    _build_statement(
        "text beside numbers",
        "UPDATE {t} SET s = s || '-' || v || true WHERE id < 3",
        *('[1, "ann-10true", 10]', "[2, null, null]", _THREE, _FOUR),
    ),
    _build_statement(
        "rows in brackets",
        "DELETE FROM {t} WHERE (id, v) IN ((1, 10), (4, 1))",
        *(_TWO, _THREE, _FOUR),
    ),
    _build_statement(
        "strings beside each other",
        "UPDATE {t} SET s = r'a\\n' 'b' \"c\" WHERE id = 1",
        *('[1, "a\\\\nbc", 10]', _TWO, _THREE, _FOUR),
    ),
    _build_statement(
        "an interval of several units",
        "UPDATE {t} SET s = CAST(TIMESTAMP '2024-03-01 00:00:00'"
        " - INTERVAL '1 02:03:04' DAY TO SECOND AS STRING) WHERE id = 1",
        *('[1, "2024-02-28 21:56:56", 10]', _TWO, _THREE, _FOUR),
    ),
    _build_statement(
        "hours added to a day",
        "UPDATE {t} SET s = CAST(DATEADD(HOUR, 25, DATE '2024-02-28') AS STRING) WHERE id = 1",
        *('[1, "2024-02-29 01:00:00", 10]', _TWO, _THREE, _FOUR),
    ),
    _build_statement(
        "a name that the next column uses",
        "INSERT INTO {t} (id, v) SELECT id + 1 AS k, k * 2 FROM {s}",
        *(_ONE, "[10, null, 20]", _TWO, "[2, null, 4]", _THREE, _FOUR),
    ),
    _build_statement(
        "a frame of rows",
        "INSERT INTO {t} (id, v) SELECT id + 10, sum(v) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING"
        " AND CURRENT ROW) FROM {s}",
        *(_ONE, "[11, null, 100]", "[19, null, 190]", _TWO, _THREE, _FOUR),
    ),
    *(
        Statement(
            f"DEFAULT in a SELECT {name}",
            f"INSERT INTO {{t}} {columns}SELECT id, DEFAULT FROM {{s}}",
            "id INT, d INT DEFAULT 42",
            (),
            "id INT",
            ((1,), (2,)),
            ("[1, 42]", "[2, 42]"),
            properties="'delta.feature.allowColumnDefaults' = 'supported'",
        )
        for name, columns in (("by position", ""), ("for columns", "(id, d) "))
    ),
)


def _assignment_cases() -> tuple[Statement, ...]:
    """Return cases of store assignment: every type into every type, by UPDATE, MERGE and INSERT."""
    overflow, text = OVERFLOW, "CAST_INVALID_INPUT"
    values: tuple[tuple[str, str, str, str, str], ...] = (
        # column, type of the value, the value, what is stored, or the error's class
        ("INT", "STRING", "' 7 '", "7", ""),
        ("INT", "STRING", "'x'", "", text),
        ("INT", "STRING", "'1.5'", "", text),
        ("INT", "BIGINT", "3000000000", "", overflow),
        ("INT", "DOUBLE", "1.9D", "1", ""),
        ("INT", "BOOLEAN", "true", "1", ""),
        ("INT", "TIMESTAMP", "TIMESTAMP '2024-01-01 00:00:00'", "1704067200", ""),
        ("INT", "DATE", "DATE '2024-01-01'", "", "DATATYPE_MISMATCH"),
        ("BOOLEAN", "STRING", "'true'", "true", ""),
        ("BOOLEAN", "STRING", "'maybe'", "", text),
        ("BOOLEAN", "INT", "2", "true", ""),
        ("TINYINT", "INT", "300", "", overflow),
        ("DECIMAL(4,2)", "DECIMAL(6,3)", "1.456", '"1.46"', ""),
        ("DECIMAL(4,2)", "DECIMAL(6,3)", "123.456", "", overflow),
        ("DATE", "STRING", "'2024-01-01'", '"2024-01-01"', ""),
        ("DATE", "STRING", "'x'", "", text),
        ("DATE", "TIMESTAMP", "TIMESTAMP '2024-01-01 05:00:00'", '"2024-01-01"', ""),
        ("DATE", "INT", "1", "", "DATATYPE_MISMATCH"),
        ("TIMESTAMP", "DATE", "DATE '2024-01-01'", '"2024-01-01T00:00:00.000000"', ""),
        ("STRING", "DATE", "DATE '2024-01-01'", '"2024-01-01"', ""),
    )
    statements = []
    for column, kind, value, stored, refused in values:
        for way, text_of in (
            ("update", f"UPDATE {{t}} SET v = CAST({value} AS {kind})"),
            ("merge", MERGE + f"WHEN MATCHED THEN UPDATE SET v = CAST({value} AS {kind})"),
            ("insert", f"INSERT INTO {{t}} VALUES (1, CAST({value} AS {kind}))"),
        ):
            statements.append(
                Statement(
                    f"{kind} {value} for {column} by {way}".replace("'", ""),
                    text_of,
                    f"id INT, v {column}",
                    () if way == "insert" else ((1, None),),
                    "id INT",
                    ((1,),),
                    leaves=() if refused else (f"[1, {stored}]",),
                    refused=OVERFLOW_OF_INSERT
                    if way == "insert" and refused == overflow
                    else refused,
                )
            )
    return tuple(statements)


ASSIGNMENT = _assignment_cases()
STATEMENTS = (*STRUCTS, *GENERATED, *STRICT, *EVOLUTION, *RULES, *SPELLINGS, *ASSIGNMENT)
