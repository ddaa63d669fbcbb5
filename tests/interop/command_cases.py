"""Commands that define and maintain tables, and features that this engine refuses by name."""

from tests.interop.turns import (
    CHANGES,
    DELTA_CHANGES,
    ENGINE,
    ENGINE_CHANGES,
    HISTORY,
    MORE,
    ROWS,
    TIMES,
    Case,
    create_table,
    delta_step,
    engine_step,
)

COMMAND_CASES: tuple[Case, ...] = (
    Case(
        "overwrites-by-delta",
        "overwriting: all, by condition, by partition",
        (
            delta_step(
                create_table("id BIGINT, name STRING, p INT", "PARTITIONED BY (p)"),
                "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
                "INSERT INTO {t} REPLACE WHERE p = 2 VALUES (4, 'd', 2)",
            ),
            engine_step(
                "INSERT INTO {t} REPLACE WHERE p = 1 VALUES (5, 'e', 1)",
                "INSERT OVERWRITE {t} VALUES (6, 'f', 6), (7, 'g', 7)",
            ),
            delta_step("DELETE FROM {t} WHERE p = 7"),
        ),
    ),
    Case(
        "overwrites-by-engine",
        "overwriting: all, by condition, by partition",
        (
            engine_step(
                create_table("id BIGINT, name STRING, p INT", "PARTITIONED BY (p)"),
                "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
                "INSERT INTO {t} REPLACE WHERE p = 2 VALUES (4, 'd', 2)",
            ),
            delta_step("INSERT INTO {t} REPLACE WHERE p = 1 VALUES (5, 'e', 1)"),
            engine_step("INSERT OVERWRITE {t} VALUES (6, 'f', 6), (7, 'g', 7)"),
        ),
    ),
    Case(
        "alters-by-engine",
        "columns added, renamed, dropped and widened",
        (
            engine_step(
                create_table(
                    "id BIGINT, name STRING, n INT, gone STRING",
                    columnMapping__mode="name",
                    enableTypeWidening="true",
                ),
                "INSERT INTO {t} VALUES (1, 'a', 1, 'x'), (2, 'b', NULL, 'y'), (5, 'e', 5, NULL)",
                "ALTER TABLE {t} ADD COLUMNS (extra STRUCT<a: INT, b: DATE>)",
                "ALTER TABLE {t} RENAME COLUMN name TO title",
                "ALTER TABLE {t} DROP COLUMN gone",
                "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
                "ALTER TABLE {t} ADD COLUMNS (name STRING)",
                "INSERT INTO {t} (id, title, n, name) VALUES (3, 'c', 5000000000, 'd')",
            ),
            delta_step(
                "INSERT INTO {t} VALUES (4, 'd', 4, named_struct('a', 1, 'b', DATE '2024-01-01'), 'z')",
                "UPDATE {t} SET extra.a = 7 WHERE id = 4",
                *CHANGES,
                "OPTIMIZE {t}",
            ),
            engine_step(*ENGINE_CHANGES),
        ),
    ),
    *(
        Case(
            f"enabled-later-by-{maker}",
            "features enabled on a table with rows",
            (
                side(
                    create_table(enableDeletionVectors="false"),
                    ROWS,
                    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
                    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
                    "'delta.enableInCommitTimestamps' = 'true')",
                    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
                    "'delta.enableChangeDataFeed' = 'true', 'delta.checkpointPolicy' = 'v2')",
                    "ALTER TABLE {t} CLUSTER BY (id)",
                    MORE,
                ),
                other(*changes),
            ),
            TIMES,
        )
        for maker, side, other, changes in (
            ("engine", engine_step, delta_step, DELTA_CHANGES),
            ("delta", delta_step, engine_step, ENGINE_CHANGES),
        )
    ),
    Case(
        "dropped-feature-by-engine",
        "a feature dropped again",
        (
            engine_step(
                create_table(),
                ROWS,
                "DELETE FROM {t} WHERE id = 3",
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
                "REORG TABLE {t} APPLY (PURGE)",
                "ALTER TABLE {t} DROP FEATURE deletionVectors",
            ),
            delta_step(*DELTA_CHANGES),
            engine_step("INSERT INTO {t} VALUES (20, 'z')"),
        ),
    ),
    Case(
        "vacuum-by-engine",
        "VACUUM",
        (
            engine_step(create_table(), ROWS, MORE, "OPTIMIZE {t}", "VACUUM {t} RETAIN 0 HOURS"),
            delta_step("DELETE FROM {t} WHERE id = 1", "OPTIMIZE {t}", "VACUUM {t} RETAIN 0 HOURS"),
            engine_step("DELETE FROM {t} WHERE id = 2", "VACUUM {t} RETAIN 0 HOURS"),
        ),
        HISTORY,
    ),
    Case(
        "restore-by-delta",
        "RESTORE",
        (
            delta_step(
                create_table(),
                ROWS,
                "DELETE FROM {t} WHERE id > 2",
                "RESTORE TABLE {t} TO VERSION AS OF 1",
                MORE,
            ),
            engine_step("DELETE FROM {t} WHERE id = 1", "RESTORE TABLE {t} TO VERSION AS OF 2"),
        ),
        HISTORY,
    ),
    Case(
        "application-by-delta",
        "application transactions",
        (
            delta_step(
                create_table(),
                {
                    "append": "SELECT 1L AS id, 'a' AS name",
                    "options": {"txnAppId": "app", "txnVersion": "1"},
                },
                {
                    "append": "SELECT 1L AS id, 'a' AS name",
                    "options": {"txnAppId": "app", "txnVersion": "1"},
                },
            ),
            engine_step("OPTIMIZE {t}", "INSERT INTO {t} VALUES (2, 'b')"),
            delta_step(
                {
                    "append": "SELECT 9L AS id, 'twice' AS name",
                    "options": {"txnAppId": "app", "txnVersion": "1"},
                }
            ),
        ),
    ),
    Case(
        "variant-by-delta",
        "variant columns",
        (
            delta_step(
                create_table("id BIGINT, v VARIANT"),
                'INSERT INTO {t} SELECT 1L, parse_json(\'{"a": [1, "x", null]}\')',
                "INSERT INTO {t} SELECT 2L, NULL",
            ),
            engine_step("DELETE FROM {t} WHERE id = 2"),
        ),
        refused={ENGINE: "variantType"},
    ),
    Case(
        "dropped-feature-by-delta",
        "a feature dropped again",
        (
            delta_step(
                create_table(enableDeletionVectors="true"),
                ROWS,
                "DELETE FROM {t} WHERE id = 3",
                "ALTER TABLE {t} DROP FEATURE deletionVectors",
            ),
            engine_step(*ENGINE_CHANGES),
        ),
        refused={ENGINE: "checkpointProtection"},
    ),
    Case(
        "char-by-delta",
        "CHAR and VARCHAR columns",
        (
            delta_step(
                create_table("id BIGINT, name VARCHAR(10), code CHAR(3)"),
                "INSERT INTO {t} VALUES (1, 'a', 'xxx'), (5, 'b', 'yyy')",
            ),
            engine_step("DELETE FROM {t} WHERE id = 5", "INSERT INTO {t} VALUES (2, 'b', 'abc')"),
        ),
    ),
    Case(
        "legacy-by-delta",
        "legacy protocol versions",
        (
            delta_step(
                create_table(
                    minReaderVersion="1",
                    minWriterVersion="2",
                    enableDeletionVectors="false",
                    ignoreProtocolDefaults="true",
                ),
                ROWS,
                *DELTA_CHANGES,
            ),
            engine_step(*ENGINE_CHANGES),
        ),
    ),
)
