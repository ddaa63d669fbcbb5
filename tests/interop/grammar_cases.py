"""Statements for this engine and delta-spark, each on its own table: same text, same rows."""

from tests.interop.turns import DELTA, ENGINE, Case, Step

_CREATE = (
    "CREATE TABLE {t} (a BIGINT, b STRING DEFAULT 'x', p INT, q STRING, s STRUCT<x: INT, y: STRING>, "
    "l ARRAY<INT>) USING DELTA PARTITIONED BY (p, q) "
    "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
)
_FILL = (
    "INSERT INTO {t} VALUES (1, 'k', 1, 'k', named_struct('x', 1, 'y', 'a'), array(1, 2)), "
    "(2, NULL, 1, 'm', named_struct('x', 2, 'y', CAST(NULL AS STRING)), array(3)), (3, 'z-7', 2, 'k', NULL, NULL), "
    "(4, 'ab', NULL, 'k', named_struct('x', 4, 'y', 'd'), array(4, 5, 6))"
)
STATEMENTS = {
    "insert-partition": "INSERT INTO {t} PARTITION (q = 'n', p = '7') (a, b) VALUES (9, DEFAULT)",
    "insert-partition-mixed": "INSERT INTO {t} PARTITION (q, p = 7) SELECT 9, 'w', 'k', NULL, array(1)",
    "overwrite-partition": "INSERT OVERWRITE {t} PARTITION (p = 1, q = 'k') SELECT 9, 'o', NULL, NULL",
    "overwrite-partition-mixed": "INSERT OVERWRITE {t} PARTITION (p = 1, q) SELECT 9, 'o', 'w', NULL, NULL",
    "overwrite-columns": "INSERT OVERWRITE {t} (p, a, q) VALUES (1, 9, 'k'), (2, 8, 'k')",
    "update-default": "UPDATE {t} SET b = DEFAULT WHERE a < 3",
    "with-insert": "WITH c AS (SELECT 9 AS a, 'w' AS b, 1 AS p, 'k' AS q) INSERT INTO {t} (a, b, p, q) SELECT * FROM c",
    "lambdas": "UPDATE {t} SET l = transform(filter(l, x -> x > 1), x -> x * 2) WHERE exists(l, x -> x > 2)",
    "aggregate": "UPDATE {t} SET a = aggregate(l, a, (acc, x) -> acc + x) WHERE l IS NOT NULL",
    "structs": "UPDATE {t} SET s = named_struct('x', 7, 'y', s.y) WHERE s = named_struct('x', 4, 'y', 'd')",
    "patterns": "UPDATE {t} SET b = regexp_replace(b, '([a-z])-([0-9])', '$2$1') WHERE b RLIKE '^[a-z]+-?[0-9]*$'",
    "json": "UPDATE {t} SET b = to_json(s), s = from_json('{\"x\": 3}', 'x INT, y STRING') WHERE s IS NOT NULL",
    "casts": "UPDATE {t} SET s = CAST(NULL AS STRUCT<x: INT, y: STRING>), l = CAST(array('8') AS ARRAY<INT>)",
    "free-words": "ALTER TABLE {t} ADD COLUMNS (at INT AFTER a, date DATE FIRST, value STRING)",
}  # fmt: skip
GRAMMAR_CASES = tuple(
    Case(f"grammar-{name}-by-{side}", f"statement: {name}", (Step(side, (_CREATE, _FILL, text)),))
    for name, text in STATEMENTS.items()
    for side in (ENGINE, DELTA)
)
