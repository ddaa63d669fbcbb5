"""A table's life in turns of two engines.

Statements are SQL that both sides understand; `{t}` is the table. A case's steps are done in order,
each by its side, and after each turn both sides' readings of the table must agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENGINE, DELTA = "engine", "delta-spark"
Statement = str | dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One side's actions before the other side reads."""

    side: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Case:
    """A table's life.

    Attributes:
        name: of its directory and its test.
        feature: what it is about, for people.
        steps: whose turn it is, and what is done.
        queries: asked of delta-spark after each of its turns, by name.
        refused: words of the errors by which a side rightly refuses a statement.
        unreadable: words of the error by which this engine rightly refuses to read the table.
    """

    name: str
    feature: str
    steps: tuple[Step, ...]
    queries: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    unreadable: str = ""

    @property
    def first(self) -> str:
        """Return the side that creates the table."""
        return self.steps[0].side


def engine_step(*statements: Statement) -> Step:
    """Return a turn of this engine."""
    return Step(ENGINE, statements)


def delta_step(*statements: Statement) -> Step:
    """Return a turn of delta-spark."""
    return Step(DELTA, statements)


ROWS = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd'), (5, 'e')"
MORE = "INSERT INTO {t} VALUES (6, 'f'), (7, 'g'), (8, 'ä')"
CHANGES = (
    "DELETE FROM {t} WHERE id = 2",
    "UPDATE {t} SET name = 'new' WHERE id = 4",
    "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (1L, 'merged'), (9L, 'added') AS s(id, name)) AS s "
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
)
ENGINE_CHANGES = (
    "DELETE FROM {t} WHERE id = 5",
    "UPDATE {t} SET name = 'ours' WHERE id = 7",
    "INSERT INTO {t} (id, name) VALUES (10, 'x'), (11, NULL)",
    "MERGE INTO {t} AS t USING (VALUES (8, 'eight'), (12, 'twelve')) AS s (id, name) ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    "OPTIMIZE {t}",
)
DELTA_CHANGES = (*CHANGES, "OPTIMIZE {t}")


def create_table(
    columns: str = "id BIGINT, name STRING", layout: str = "", **properties: str
) -> str:
    listed = ", ".join(
        f"'delta.{key.replace('__', '.')}' = '{value}'" for key, value in properties.items()
    )
    return f"CREATE TABLE {{t}} ({columns}) USING DELTA {layout}" + (
        f" TBLPROPERTIES ({listed})" if listed else ""
    )


def both_ways(
    name: str,
    feature: str,
    create: str,
    *,
    queries: Mapping[str, str] | None = None,
    engine_changes: tuple[Statement, ...] = ENGINE_CHANGES,
    delta_changes: tuple[Statement, ...] = DELTA_CHANGES,
    rows: tuple[Statement, ...] = (ROWS, MORE),
    refused: Mapping[str, str] | None = None,
) -> tuple[Case, Case]:
    """Return two cases: each side creates the table, the other changes it, then the first again."""
    asked = queries or {}
    ours = (engine_step(create, *rows), delta_step(*delta_changes), engine_step(*engine_changes))
    theirs = (
        delta_step(create, *rows, *delta_changes[:-1]),
        engine_step(*engine_changes),
        delta_step("OPTIMIZE {t}"),
    )
    return (
        Case(f"{name}-by-engine", feature, ours, asked, refused or {}),
        Case(f"{name}-by-delta", feature, theirs, asked, refused or {}),
    )


ROW_IDS = {"row_ids": "SELECT id, name, _metadata.row_id, _metadata.row_commit_version FROM {t}"}
DETAIL = {"detail": "clusteringColumns << DESCRIBE DETAIL {t}"}
HISTORY = {"history": "version, operation << DESCRIBE HISTORY {t}"}
TIMES = {"times": "version, timestamp << DESCRIBE HISTORY {t}"}
