"""Table features and properties, each on a table made by either side."""

from tests.interop.turns import (
    CHANGES,
    DETAIL,
    ENGINE,
    ENGINE_CHANGES,
    MORE,
    ROW_IDS,
    ROWS,
    TIMES,
    Case,
    both_ways,
    create_table,
    delta_step,
    engine_step,
)

_MANY_ROWS = ", ".join(f"({number}, 'n{number}')" for number in range(2000))

_NESTED = (
    "id BIGINT, who STRUCT<name: STRING, tags: ARRAY<STRING>>, counts MAP<STRING, INT>, "
    "deep ARRAY<STRUCT<a: INT, b: MAP<STRING, DATE>>>"
)
_NESTED_ROWS = [
    {
        "id": 1,
        "who": {"name": "a", "tags": ["x", None]},
        "counts": {"k": 1, "l": None},
        "deep": [{"a": 1, "b": {"1": "2024-01-01"}}],
    },
    {"id": 2},
    {"id": 3, "counts": {}, "deep": []},
]
_NESTED_CHANGES = ("UPDATE {t} SET who.name = 'z' WHERE id = 1", "DELETE FROM {t} WHERE id = 7")

FEATURE_CASES: tuple[Case, ...] = (
    *both_ways(
        "plain",
        "append, DELETE, UPDATE, MERGE, OPTIMIZE",
        create_table(),
        queries={"checksum": "checksum"},
    ),
    *both_ways(
        "no-vectors",
        "rewriting without deletion vectors",
        create_table(enableDeletionVectors="false"),
    ),
    *both_ways(
        "vectors",
        "deletion vectors",
        create_table(enableDeletionVectors="true"),
        rows=(f"INSERT INTO {{t}} VALUES {_MANY_ROWS}",),  # noqa: S608 - written here
        delta_changes=(
            "DELETE FROM {t} WHERE id % 3 = 0",
            "DELETE FROM {t} WHERE id % 5 = 0",
            "REORG TABLE {t} APPLY (PURGE)",
        ),
        engine_changes=(
            "DELETE FROM {t} WHERE id % 7 = 0",
            "DELETE FROM {t} WHERE id BETWEEN 100 AND 300",
        ),
    ),
    Case(
        "nested-by-engine",
        "structs, arrays and maps",
        (
            engine_step(create_table(_NESTED), {"json_rows": _NESTED_ROWS}),
            delta_step(*_NESTED_CHANGES),
            engine_step("DELETE FROM {t} WHERE id = 2", "OPTIMIZE {t}"),
        ),
    ),
    Case(
        "nested-by-delta",
        "structs, arrays and maps",
        (
            delta_step(
                create_table(_NESTED),
                "INSERT INTO {t} SELECT 1L, named_struct('name', 'a', 'tags', array('x', NULL)), "
                "map('k', 1, 'l', CAST(NULL AS INT)), "
                "array(named_struct('a', 1, 'b', map('1', DATE '2024-01-01')))",
                "INSERT INTO {t} SELECT 2L, NULL, NULL, NULL",
                "INSERT INTO {t} SELECT 3L, NULL, map(), array()",
                *_NESTED_CHANGES,
            ),
            engine_step(
                "DELETE FROM {t} WHERE id = 2", "OPTIMIZE {t}", {"json_rows": _NESTED_ROWS}
            ),
        ),
    ),
    *both_ways(
        "mapping-name",
        "column mapping by name",
        create_table("id BIGINT, name STRING, `odd ,;{}()=` INT", columnMapping__mode="name"),
        rows=(
            "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (4, 'd', 4)",
            "INSERT INTO {t} VALUES (5, 'f', NULL), (7, 'h', 7)",
        ),
        delta_changes=(
            "ALTER TABLE {t} RENAME COLUMN name TO title",
            "ALTER TABLE {t} DROP COLUMN `odd ,;{}()=`",
            "ALTER TABLE {t} ADD COLUMN name STRING",
            *CHANGES,
            "OPTIMIZE {t}",
        ),
    ),
    *both_ways("mapping-id", "column mapping by id", create_table(columnMapping__mode="id")),
    *both_ways(
        "mapping-partitioned",
        "column mapping of a partition column",
        create_table(
            "id BIGINT, name STRING, p STRING", "PARTITIONED BY (p)", columnMapping__mode="name"
        ),
        rows=(
            "INSERT INTO {t} VALUES (1, 'a', 'x'), (2, 'b', 'y'), (4, 'd', NULL), (5, 'e', 'x')",
        ),
        delta_changes=(
            "ALTER TABLE {t} RENAME COLUMN p TO part",
            "DELETE FROM {t} WHERE id = 2",
            "OPTIMIZE {t}",
        ),
        engine_changes=(
            "DELETE FROM {t} WHERE id = 5",
            "INSERT INTO {t} VALUES (9, 'i', 'z')",
            "OPTIMIZE {t}",
        ),
    ),
    *both_ways(
        "row-tracking", "row tracking", create_table(enableRowTracking="true"), queries=ROW_IDS
    ),
    *both_ways(
        "in-commit-timestamps",
        "in-commit timestamps",
        create_table(enableInCommitTimestamps="true"),
        queries=TIMES,
    ),
    *both_ways(
        "clustering", "liquid clustering", create_table(layout="CLUSTER BY (id)"), queries=DETAIL
    ),
    *both_ways(
        "constraints",
        "CHECK and NOT NULL constraints",
        create_table("id BIGINT NOT NULL, name STRING"),
        rows=(ROWS, "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 1000)", MORE),
        engine_changes=(
            *ENGINE_CHANGES,
            "INSERT INTO {t} (id, name) VALUES (5000, 'against the constraint')",
        ),
        refused={ENGINE: "against the constraint"},
    ),
    *both_ways(
        "generated",
        "generated columns",
        create_table("id BIGINT, name STRING, twice BIGINT GENERATED ALWAYS AS (id * 2)"),
        rows=(
            "INSERT INTO {t} (id, name) VALUES (1, 'a'), (2, 'b'), (4, 'd')",
            "INSERT INTO {t} (id, name) VALUES (5, 'f'), (7, 'h')",
        ),
    ),
    *both_ways(
        "defaults",
        "column defaults",
        create_table(
            "id BIGINT, name STRING DEFAULT 'none'", feature__allowColumnDefaults="supported"
        ),
        rows=(ROWS, "INSERT INTO {t} (id) VALUES (6), (7)"),
        engine_changes=("INSERT INTO {t} (id) VALUES (12)", *ENGINE_CHANGES),
    ),
    *both_ways(
        "identity",
        "identity columns",
        create_table("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, name STRING"),
        rows=(
            "INSERT INTO {t} (id, name) VALUES (1, 'a'), (2, 'b'), (4, 'd')",
            "INSERT INTO {t} (id, name) VALUES (5, 'f'), (7, 'h')",
        ),
        queries={"unique": "SELECT count(*) - count(DISTINCT k) FROM {t}"},
    ),
    *both_ways(
        "change-data",
        "change data feed",
        create_table(enableChangeDataFeed="true"),
        queries={
            "changes": "SELECT id, name, _change_type, _commit_version FROM table_changes_by_path('{path}', 0)"
        },
    ),
    *both_ways(
        "v2-checkpoints",
        "v2 checkpoints",
        create_table(checkpointPolicy="v2", checkpointInterval="2"),
    ),
    *both_ways("checkpoints", "classic checkpoints", create_table(checkpointInterval="2")),
    *both_ways(
        "struct-stats",
        "checkpoints with typed statistics alone",
        create_table(
            "id BIGINT, name STRING",
            checkpoint__writeStatsAsStruct="true",
            checkpoint__writeStatsAsJson="false",
            checkpointInterval="2",
        ),
    ),
    *both_ways(
        "timestamp-ntz",
        "timestamps without a zone",
        create_table("id BIGINT, name STRING, at TIMESTAMP_NTZ"),
        rows=(
            "INSERT INTO {t} VALUES (1, 'a', TIMESTAMP_NTZ '2024-03-31 02:30:00'), (2, 'b', NULL), (4, 'c', TIMESTAMP_NTZ '1582-10-15 00:00:00.000001'), (5, 'd', NULL)",
        ),
    ),
    *both_ways(
        "type-widening",
        "type widening",
        create_table(
            "id BIGINT, name STRING, n INT, f FLOAT, dec DECIMAL(5, 2)", enableTypeWidening="true"
        ),
        rows=(
            "INSERT INTO {t} VALUES (1, 'a', 1, 1.5F, 1.25BD), (2, 'b', NULL, NULL, NULL), (4, 'd', 4, 4F, 4BD)",
        ),
        delta_changes=(
            "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN dec TYPE DECIMAL(12, 4)",
            "INSERT INTO {t} VALUES (5, 'e', 5000000000, 1e300, 12345678.1234BD), (7, 'g', 7, 7, 7BD)",
            "UPDATE {t} SET name = 'w' WHERE n = 4",
            "DELETE FROM {t} WHERE n = 99",
        ),
    ),
    *both_ways(
        "append-only",
        "append-only tables",
        create_table(appendOnly="true"),
        delta_changes=("INSERT INTO {t} VALUES (20, 't')", "OPTIMIZE {t}"),
        engine_changes=("INSERT INTO {t} VALUES (21, 'u')", "OPTIMIZE {t}"),
    ),
)
