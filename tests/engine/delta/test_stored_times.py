"""Times added to a table are cast by the time zone of the writing session."""

import pytest

from engine.delta import DeltaTable
from engine.errors import EngineError
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TEXT = "2024-01-01 00:00:00"
NEW_YEAR = 1_704_085_200_000_000  # 2024-01-01 00:00:00 in New York
COLUMNS = "id INT, at TIMESTAMP, day DATE, local TIMESTAMP_NTZ, said STRING"
VALUES = f"INSERT INTO times VALUES (1, '{TEXT}')"  # noqa: S608
AS_TEXT = f"SELECT 1 AS id, '{TEXT}' AS at"
AS_TIME = f"TIMESTAMP '{TEXT}'"


@pytest.fixture
def session(lake):
    session = lake.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.sql("USE shop")
    yield session
    session.sql("DROP TABLE IF EXISTS times")


@pytest.fixture
def make(session, tmp_path):
    def table(columns=COLUMNS, more=""):
        place = tmp_path / "times"
        session.sql(f"CREATE TABLE times ({columns}) USING delta {more} LOCATION '{place}'")
        return str(place)

    return table


def _save(frame, place):
    frame.write.format("delta").mode("append").save(place)


def _read_stored(session, column="unix_micros(at)"):
    (row,) = session.read.table("times").selectExpr(f"{column} AS value").collect()
    return row.value


WAYS = {
    "save": _save,
    "save over all": lambda frame, place: frame.write.format("delta").mode("overwrite").save(place),
    "saveAsTable": lambda frame, _: frame.write.format("delta").mode("append").saveAsTable("times"),
    "insertInto": lambda frame, _: frame.write.insertInto("times"),
    "append": lambda frame, _: frame.writeTo("times").append(),
    "overwrite": lambda frame, _: frame.writeTo("times").overwrite("id = 1"),
    "values": lambda frame, _: frame.sparkSession.sql(VALUES),
    "by name": lambda frame, _: frame.sparkSession.sql(f"INSERT INTO times BY NAME {AS_TEXT}"),
    "select": lambda frame, _: frame.sparkSession.sql(f"INSERT OVERWRITE times {AS_TEXT}"),
}


@pytest.mark.parametrize("way", one_in(2, WAYS))
def test_a_text_is_cast_by_the_session_s_zone(session, make, way):
    WAYS[way](session.sql(AS_TEXT), make("id INT, at TIMESTAMP"))
    assert _read_stored(session) == NEW_YEAR


@pytest.mark.parametrize(
    ("value", "column", "told", "expected"),
    [
        ("DATE '2024-01-01'", "at", "unix_micros(at)", NEW_YEAR),
        (f"TIMESTAMP_NTZ '{TEXT}'", "at", "unix_micros(at)", NEW_YEAR),
        (f"{AS_TIME} - INTERVAL 1 HOUR", "day", "CAST(day AS STRING)", "2023-12-31"),
        (AS_TIME, "local", "CAST(local AS STRING)", TEXT),
        (AS_TIME, "said", "said", TEXT),
        (f"array({AS_TIME})", "said", "said", f"[{TEXT}]"),
    ],
)
def test_a_time_cast_to_another_type_uses_the_session_s_zone(
    session, make, value, column, told, expected
):
    _save(session.sql(f"SELECT 1 AS id, {value} AS {column}"), make())
    assert _read_stored(session, told) == expected


def test_times_inside_values_are_cast_too(session, make):
    place = make("id INT, deep STRUCT<a: INT, at: ARRAY<TIMESTAMP>>, by MAP<STRING, TIMESTAMP>")
    rows = f"SELECT 1 AS id, named_struct('at', array('{TEXT}'), 'a', 1) AS deep"
    _save(session.sql(f"{rows}, map('x', DATE '2024-01-01') AS by"), place)
    assert _read_stored(session, "unix_micros(deep.at[0])") == NEW_YEAR
    assert _read_stored(session, "unix_micros(by['x'])") == NEW_YEAR


def test_times_inside_values_are_cast_in_an_update_too(session, make):
    place = make("id INT, deep STRUCT<a: INT, at: TIMESTAMP>")
    _save(
        session.sql("SELECT 1 AS id, named_struct('a', 1, 'at', TIMESTAMP '2020-01-01') deep"),
        place,
    )
    deep = f"named_struct('at', '{TEXT}', 'a', id)"
    DeltaTable.forPath(session, place).update(set={"deep": deep})
    assert _read_stored(session, "struct(deep.a, unix_micros(deep.at) AS at)") == (1, NEW_YEAR)


def test_a_merge_requires_a_cast_of_times_inside_values(session, make):
    target = DeltaTable.forPath(session, make("id INT, deep STRUCT<at: TIMESTAMP>"))
    source = session.sql(f"SELECT 1 AS id, named_struct('at', '{TEXT}') AS deep")
    merge = target.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    with pytest.raises(EngineError, match="deep would be stored in the session's time zone"):
        merge.execute()
    assert session.read.table("times").count() == 0


def test_a_partition_of_a_time_is_the_session_s(session, make):
    place = make("id INT, at TIMESTAMP", "PARTITIONED BY (at)")
    _save(session.sql(AS_TEXT), place)
    session.sql(f"INSERT OVERWRITE times PARTITION (at = '{TEXT}') SELECT 2")
    assert _read_stored(session, "struct(id, unix_micros(at) AS at)") == (2, NEW_YEAR)


@pytest.mark.parametrize(
    "default", one_in(3, [AS_TIME, "DATE '2024-01-01'", "to_timestamp('2024-01-01')"])
)
def test_a_default_is_evaluated_in_the_session_s_zone(session, make, default):
    more = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    make(f"id INT, at TIMESTAMP DEFAULT {default}", more)
    session.sql("INSERT INTO times (id) VALUES (1)")
    assert _read_stored(session) == NEW_YEAR


def test_a_generated_column_is_computed_in_the_session_s_zone(session, make):
    place = make("at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))")
    late = session.sql("SELECT TIMESTAMP '2024-01-01 23:00:00' AS at")
    _save(late, place)
    assert str(_read_stored(session, "day")) == "2024-01-01"
    with pytest.raises(EngineError, match="the generation of day"):
        _save(late.selectExpr("at", "DATE '2024-01-02' AS day"), place)


def test_without_ansi_mode_a_text_that_is_no_time_is_not_stored_as_null(session, make):
    place = make("id INT, at TIMESTAMP", "PARTITIONED BY (at)")
    session.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(EngineError, match="at"):
        _save(session.sql("SELECT 1 AS id, 'nonsense' AS at"), place)
    with pytest.raises(EngineError, match="at"):
        session.sql("INSERT INTO times PARTITION (at = 'nonsense') SELECT 1")
    _save(session.sql(AS_TEXT), place)
    assert _read_stored(session) == NEW_YEAR
