"""Tables that share their files: with the table they were cloned from, or with Iceberg clients."""

from tests.interop.turns import (
    CHANGES,
    DELTA_CHANGES,
    ENGINE_CHANGES,
    MORE,
    ROW_IDS,
    ROWS,
    Case,
    create_table,
    delta_step,
    engine_step,
)

_SOURCE = (
    "CREATE TABLE delta.`{path}-source` (id BIGINT, name STRING) USING DELTA TBLPROPERTIES"
    " ('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')",
    "INSERT INTO delta.`{path}-source` VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd'), (5, 'e')",
    "INSERT INTO delta.`{path}-source` VALUES (6, 'f'), (7, 'g'), (8, 'ä')",
    "DELETE FROM delta.`{path}-source` WHERE id = 3",
)
_UPGRADE = "REORG TABLE {t} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))"
_COLUMNS = "id BIGINT, name STRING, tags ARRAY<INT>, at TIMESTAMP"

SHARING_CASES: tuple[Case, ...] = (
    Case(
        "clone-by-delta",
        "shallow clones",
        (
            delta_step(*_SOURCE, "CREATE TABLE {t} SHALLOW CLONE delta.`{path}-source`"),
            engine_step(*ENGINE_CHANGES),
            delta_step(*CHANGES),
        ),
        ROW_IDS,
    ),
    Case(
        "clone-by-engine",
        "tables that became shallow clones",
        (
            delta_step(*_SOURCE, create_table()),
            engine_step(
                "CREATE OR REPLACE TABLE {t} SHALLOW CLONE delta.`{path}-source`", *ENGINE_CHANGES
            ),
            delta_step(*DELTA_CHANGES),
        ),
        ROW_IDS,
    ),
    Case(
        "uniform-by-engine",
        "files that Iceberg clients read too",
        (
            engine_step(
                create_table(_COLUMNS, "PARTITIONED BY (name)"),
                ROWS.replace("{t}", "{t} (id, name)"),
                _UPGRADE,
                MORE.replace("{t}", "{t} (id, name)"),
            ),
        ),
    ),
    Case(
        "uniform-by-delta",
        "files that Iceberg clients read too",
        (
            delta_step(
                create_table(_COLUMNS, columnMapping__mode="name", enableIcebergCompatV2="true"),
                ROWS.replace("{t}", "{t} (id, name)"),
            ),
            engine_step(*ENGINE_CHANGES),
            delta_step(*DELTA_CHANGES),
        ),
    ),
)
