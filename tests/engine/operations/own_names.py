# ruff: noqa: S608 - statements are what is tested
"""Statements that read their own table, each in another position, for every API that accepts SQL."""

ROWS = [(1, "a"), (2, "b"), (3, "c")]
TWICE = sorted(ROWS * 2)
FORMS = {
    "DELETE FROM {t} WHERE id = (SELECT max(id) FROM {r})": ROWS[:2],
    "DELETE FROM {t} AS x WHERE EXISTS (SELECT 1 FROM {r} y WHERE y.id = x.id + 1)": ROWS[2:],
    "DELETE FROM {t} WHERE id NOT IN (SELECT id FROM {r} WHERE id > 1)": ROWS[1:],
    "WITH c AS (SELECT max(id) AS m FROM {r}) DELETE FROM {t} WHERE id = (SELECT m FROM c)": ROWS[
        :2
    ],
    "UPDATE {t} SET v = (SELECT max(v) FROM {r}) WHERE id < (SELECT max(id) FROM {r})": [
        (1, "c"),
        (2, "c"),
        (3, "c"),
    ],
    "INSERT INTO {t} SELECT id, v FROM {r}": TWICE,
    "INSERT INTO {t} TABLE {r}": TWICE,
    "INSERT INTO {t} WITH c AS (SELECT * FROM {r}) SELECT id, v FROM c": TWICE,
    "INSERT INTO {t} SELECT a.id, b.v FROM {r} a JOIN {r} b ON a.id = b.id": TWICE,
    "INSERT INTO {t} SELECT id, v FROM {r} UNION ALL SELECT id, v FROM {r} WHERE id > 9": TWICE,
    "MERGE INTO {t} AS x USING {r} AS s ON s.id = x.id WHEN MATCHED THEN UPDATE SET v = 'm'": [
        (1, "m"),
        (2, "m"),
        (3, "m"),
    ],
    "MERGE INTO {t} AS x USING (SELECT id + 1 AS id, v FROM {r}) AS s ON s.id = x.id"
    " WHEN MATCHED AND s.id > (SELECT min(id) FROM {r}) THEN DELETE"
    " WHEN NOT MATCHED THEN INSERT *": [(1, "a"), (4, "c")],
    "INSERT OVERWRITE {t} SELECT id, v FROM {r} WHERE id > 1": ROWS[1:],
    "INSERT INTO {t} REPLACE WHERE id = 1 SELECT id, upper(v) FROM {r} WHERE id = 1": [
        (1, "A"),
        *ROWS[1:],
    ],
    "INSERT INTO {t} REPLACE USING (id) SELECT id, upper(v) AS v FROM {r}": [
        (1, "A"),
        (2, "B"),
        (3, "C"),
    ],
    "INSERT INTO {t} AS q REPLACE ON q.id = s.id (SELECT id, upper(v) AS v FROM {r}) AS s": [
        (1, "A"),
        (2, "B"),
        (3, "C"),
    ],
    "CREATE OR REPLACE TABLE {t} AS SELECT * FROM {r} WHERE id > 1": ROWS[1:],
}
"""Statements over their own table `t`, read as `r`, and the rows that they leave of three."""
_NEXT = "SELECT id + 1 AS id FROM {r} WHERE id = 1"
_WITHOUT_2 = [ROWS[0], ROWS[2]]
SHADOWS = {
    "INSERT INTO {t} WITH t AS (SELECT id + 8 AS id, 'z' AS v FROM {r} WHERE id = 1)"
    " SELECT id, v FROM t": [*ROWS, (9, "z")],
    f"DELETE FROM {{t}} AS x WHERE x.id IN (WITH t AS ({_NEXT}) SELECT id FROM t)": _WITHOUT_2,
    f"UPDATE {{t}} AS x SET v = 'q' WHERE x.id IN (SELECT t.id FROM ({_NEXT}) AS t)": [
        ROWS[0],
        (2, "q"),
        ROWS[2],
    ],
    f"MERGE INTO {{t}} AS x USING (WITH t AS ({_NEXT}) SELECT id FROM t) AS s ON s.id = x.id"
    " WHEN MATCHED THEN DELETE": _WITHOUT_2,
    f"MERGE INTO {{t}} AS x USING ({_NEXT}) AS t ON t.id = x.id WHEN MATCHED THEN DELETE": _WITHOUT_2,
}
"""Statements over their own table, read as `r`, where a common table or an alias is called `t` too."""
