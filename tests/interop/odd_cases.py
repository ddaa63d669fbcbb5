"""Unusual tables that delta-spark creates and this engine only reads."""

from tests.interop.turns import Case, create_table, delta_step

_NESTED = (
    "id BIGINT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<STRUCT<e: INT, f: STRING>>>>, "
    "m MAP<STRING, STRUCT<x: INT, y: ARRAY<INT>>>, "
    "arr ARRAY<STRUCT<k: STRING, v: MAP<INT, STRING>>>, mm MAP<STRUCT<q: INT>, INT>"
)
_ROW = (
    "SELECT 1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', "
    "array(named_struct('e', 1, 'f', 'f1'), NULL))), "
    "map('k', named_struct('x', 1, 'y', array(1, NULL)), 'n', NULL), "
    "array(named_struct('k', 'kk', 'v', map(1, 'one', 2, NULL)), NULL), map(named_struct('q', 1), 5)"
)
_NOTHING = (
    "SELECT 99, NULL, NULL, NULL, NULL UNION ALL "
    "SELECT 98, named_struct('a', NULL, 'b', NULL), map(), array(), map()"
)


def _case_of_nesting(mode: str) -> Case:
    """Return the case: fields in structs, arrays and maps are renamed, dropped, and added under old names."""
    return Case(
        f"nested-{mode}-by-delta",
        f"column mapping by {mode}: nested fields renamed, dropped and added again",
        (
            delta_step(
                create_table(_NESTED, columnMapping__mode=mode),
                f"INSERT INTO {{t}} {_ROW}",
                f"INSERT INTO {{t}} {_NOTHING}",
                "ALTER TABLE {t} RENAME COLUMN s.a TO aa",
                "ALTER TABLE {t} RENAME COLUMN s.b.d.element.e TO ee",
                "ALTER TABLE {t} RENAME COLUMN arr.element.k TO kk",
                "ALTER TABLE {t} RENAME COLUMN m.value.x TO xx",
                "ALTER TABLE {t} DROP COLUMN s.b.c",
                "ALTER TABLE {t} ADD COLUMN s.b.c INT",
                "ALTER TABLE {t} ADD COLUMN m.value.x STRING",
                "UPDATE {t} SET s.b.c = 3 WHERE id = 1",
            ),
        ),
    )


ODD_CASES: tuple[Case, ...] = (
    _case_of_nesting("name"),
    _case_of_nesting("id"),
    Case(
        "wide-partitions-by-delta",
        "partitions of 38 digits and of the first and last day",
        (
            delta_step(
                create_table(
                    "id INT, p DECIMAL(38, 18), d DATE, b BINARY",
                    "PARTITIONED BY (p, d, b)",
                    columnMapping__mode="name",
                ),
                "INSERT INTO {t} VALUES "
                "(1, 12345678901234567890.123456789012345678BD, DATE '0001-01-01', X'61'), "
                "(2, -0.000000000000000001BD, DATE '9999-12-31', X'62'), (3, NULL, NULL, NULL)",
            ),
        ),
    ),
    Case(
        "names-of-partitions-by-delta",
        "a partition column renamed, its old name given to another column",
        (
            delta_step(
                create_table(
                    "id INT, s STRUCT<a: INT, `b c`: INT>, p STRING",
                    "PARTITIONED BY (p)",
                    columnMapping__mode="name",
                ),
                "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b c', 2), 'p1'), (2, NULL, NULL)",
                "ALTER TABLE {t} RENAME COLUMN p TO `part, with; odd=chars`",
                """INSERT INTO {t} VALUES (4, NULL, 'x y/z%20="q"')""",
                "ALTER TABLE {t} ADD COLUMN p INT",
                "INSERT INTO {t} VALUES (5, NULL, 'again', 3)",
                "DELETE FROM {t} WHERE id = 1",
            ),
        ),
    ),
)
