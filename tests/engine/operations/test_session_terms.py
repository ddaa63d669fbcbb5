# ruff: noqa: S608 - statements are what is tested
"""Statements, generated columns and CHECK constraints mean what the caller's session says."""

from itertools import product

import pytest

from engine.errors import EngineError
from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.shares import share

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
_SESSIONS = tuple(product(_ZONES, ("true", "false")))
_AT = ("2026-01-01T02:00:00Z", "2026-01-01T20:00:00Z", "2026-03-08T06:59:00Z")
_GENERATED = {
    "d DATE": "CAST(at AS DATE)",
    "h INT": "hour(at)",
    "x STRING": "CAST(at AS STRING)",
    "k TIMESTAMP": "CASE WHEN id > 1 THEN TIMESTAMP '2026-01-01 00:00:00' ELSE at END",
    "n INT": "year(at) * 100 + month(at)",
}
_NAMES = [name.split()[0] for name in _GENERATED]
_CHECKS = (
    "hour(at) < 12",
    "at < TIMESTAMP '2026-01-01 00:00:00'",
    "CAST(at AS DATE) = '2026-01-01'",
)
_CONDITIONS = (
    "at < TIMESTAMP '2026-01-01 00:00:00'",
    "at >= '2026-01-01 12:00:00'",
    "CAST(at AS DATE) = DATE '2026-01-01'",
    "hour(at) BETWEEN 1 AND 5",
    "v = '1' AND CAST(at AS STRING) LIKE '2026-01-01%'",
)


@pytest.fixture
def sessions(spark):
    """Return New York with ANSI mode and Kolkata without; in a hunt, every zone with and without it."""
    made = []
    for zone, ansi in share(3, reversed(_SESSIONS)):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        session.conf.set("spark.sql.ansi.enabled", ansi)
        made.append(session)
    return made


def _read(table, session, select):
    rows = session.createDataFrame(table.snapshot().to_arrow()).selectExpr(*select).orderBy("id")
    return [tuple(row.values()) for row in rows.toArrow().to_pylist()]


def _create(place, columns):
    table = DeltaTable(open_store(str(place)))
    run(f"CREATE TABLE t (id INT, at TIMESTAMP, v STRING{columns})", table)
    return table


_ROWS = ", ".join(f"({i}, TIMESTAMP '{at}', '1')" for i, at in enumerate(_AT, 1))


def test_generated_columns_have_the_sessions_own_values(sessions, tmp_path):
    columns = "".join(
        f", {name} GENERATED ALWAYS AS ({value})" for name, value in _GENERATED.items()
    )
    expected = [f"{value} AS {name.split()[0]}" for name, value in _GENERATED.items()]
    for number, session in enumerate(sessions):
        table = _create(tmp_path / str(number), columns)
        run(f"INSERT INTO t (id, at, v) VALUES {_ROWS}", table, session)
        run("INSERT INTO t (id, at, v) SELECT id + 10, at, v FROM t", table, session)
        run("UPDATE t SET at = TIMESTAMP '2025-12-31 23:30:00' WHERE id = 11", table, session)
        merge = (
            "MERGE INTO t USING (SELECT id + 20 AS id, at FROM t WHERE id < 3) AS s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT (id, at) VALUES (s.id, s.at)"
        )
        run(merge, table, session)
        stored = _read(table, session, ["id", *_NAMES])
        assert len(stored) == 8
        assert stored == _read(table, session, ["id", *expected]), session.conf.get(
            "spark.sql.session.timeZone"
        )


def test_constraints_follow_the_session(sessions, tmp_path):
    for (number, session), check in product(enumerate(sessions), _CHECKS):
        table = _create(tmp_path / f"{number}{_CHECKS.index(check)}", "")
        run(f"ALTER TABLE t ADD CONSTRAINT c CHECK ({check})", table, session)
        for i, at in enumerate(_AT):
            told = session.sql(f"SELECT {check} AS ok FROM (SELECT TIMESTAMP '{at}' AS at)").first()
            insert = f"INSERT INTO t VALUES ({i}, TIMESTAMP '{at}', '1')"
            if told.ok:
                run(insert, table, session)
                continue
            with pytest.raises(EngineError):
                run(insert, table, session)


def test_conditions_and_values_follow_the_session(sessions, tmp_path):
    for number, session in enumerate(sessions):
        table = _create(tmp_path / str(number), "")
        run(f"INSERT INTO t VALUES {_ROWS}", table)
        for condition in _CONDITIONS:
            kept = [
                row[0]
                for row in _read(table, session, ["id", f"NOT ({condition}) AS kept"])
                if row[1]
            ]
            run(f"DELETE FROM t WHERE {condition}", table, session)
            assert [row[0] for row in _read(table, session, ["id"])] == kept, condition
            run("RESTORE TABLE t TO VERSION AS OF 1", table)
        wall = "'2026-01-01 05:00:00'"
        has_ansi = session.conf.get("spark.sql.ansi.enabled") == "true"
        value = wall if has_ansi else f"CAST({wall} AS TIMESTAMP)"  # text is refused without ANSI
        run(f"UPDATE t SET at = {value}, v = CAST(at AS STRING) WHERE id = 1", table, session)
        run(f"INSERT INTO t VALUES (1, {wall}, 'x'), (1, TIMESTAMP {wall}, 'y')", table, session)
        told = session.sql(f"SELECT unix_seconds(CAST({wall} AS TIMESTAMP)) AS s").first().s
        rows = _read(table, session, ["id", "unix_seconds(at) AS s", "v"])
        old = session.sql(f"SELECT CAST(TIMESTAMP '{_AT[0]}' AS STRING) AS v").first().v
        assert {row for row in rows if row[0] == 1} == {
            (1, told, old),
            (1, told, "x"),
            (1, told, "y"),
        }
