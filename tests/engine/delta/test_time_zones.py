"""Times are stored by the time zone of the caller's session, regardless of the engine's own."""

import pytest

from engine.delta import DeltaTable
from engine.errors import EngineError
from tests.shares import share

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NEW_YEAR = 1_704_085_200_000_000  # 2024-01-01 00:00:00 in New York


@pytest.fixture
def table(lake, tmp_path):
    session = lake.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.sql("SELECT 1 AS id, TIMESTAMP '2024-07-01 12:00:00' AS at, '' AS said").write.format(
        "parquet"
    ).save(str(tmp_path / "rows"))
    place = str(tmp_path / "table")
    creation = DeltaTable.create(session).location(place).addColumn("id", "INT")
    creation.addColumn("at", "TIMESTAMP").addColumn("said", "STRING").execute()
    made = DeltaTable.forPath(session, place)
    source = session.read.parquet(str(tmp_path / "rows"))
    made.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    return made


def _row(table):
    (row,) = table.toDF().selectExpr("unix_micros(at) AS at", "said").collect()
    return tuple(row)


@pytest.mark.parametrize(
    "value",
    [
        "'2024-01-01 00:00:00'",
        "DATE '2024-01-01'",
        "TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "concat('2024-01-0', id, ' 00:00:00')",
    ],
)
def test_a_value_is_cast_by_the_session_s_zone(table, value):
    table.update(set={"at": value})
    assert _row(table)[0] == NEW_YEAR


def test_a_time_cast_to_text_uses_the_session_s_zone(table):
    table.update(set={"said": "at"})
    assert _row(table)[1] == "2024-07-01 12:00:00"


def test_values_that_a_merge_sets_are_cast_in_the_session_s_zone(table):
    session = table.toDF().sparkSession
    source = session.sql("SELECT 1 AS id, '2024-01-01 00:00:00' AS at, 'x' AS said")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    with pytest.raises(EngineError, match="Cast it to TIMESTAMP in the source"):
        merge.whenMatchedUpdateAll().execute()
    merge.whenMatchedUpdate(set={"at": "s.at"}).execute()
    assert _row(table) == (NEW_YEAR, "")


def test_without_ansi_mode_a_text_that_is_no_time_is_not_stored_as_null(table):
    table.toDF().sparkSession.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(EngineError, match="Cast it: CAST"):
        table.update(set={"at": "'nonsense'"})
    assert _row(table)[0] is not None


CONDITIONS = (
    "coalesce(day, at) = at",
    "CASE WHEN day IS NULL THEN at ELSE day END = at",
    "if(id > 1, day, at) = at",
    "concat(at, '') LIKE '2024-07-04 00%'",
    "struct(day AS v).v = at OR array(at)[0] = day",
    "day IN (at, NULL) AND at BETWEEN '2024-07-04' AND '2024-07-05'",
    "date_trunc('DAY', at) = day AND hour(at) < 5",
    "map('a', CAST(at AS DATE))['a'] = DATE '2024-07-03'",
    "nullif(day, at) IS NULL",
    "at < current_timestamp() AND length(concat(day, at)) > 28 AND to_date(at) = day",
)


def _times(lake, zone, ansi):
    session = lake.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    rows = session.sql(
        "SELECT CAST(id AS INT) AS id, IF(id % 4 = 3, NULL, DATE '2024-07-04') AS day,"
        " timestamp_seconds(1720051200 + id * 900) AS at, false AS hit FROM range(96)"
    )  # every quarter of an hour of a day in UTC: midnight of each zone is among them
    return session, rows.localCheckpoint()


@pytest.mark.parametrize(
    ("zone", "ansi"),
    [
        ("America/New_York", "true"),
        ("Asia/Kathmandu", "false"),
        pytest.param("America/New_York", "false", marks=pytest.mark.stress),
        pytest.param("Asia/Kathmandu", "true", marks=pytest.mark.stress),
    ],
)
def test_update_and_merge_and_delete_choose_the_rows_that_the_session_finds(
    lake, tmp_path, zone, ansi
):
    session, rows = _times(lake, zone, ansi)
    for number, condition in enumerate(share(5, CONDITIONS)):
        found = {row.id for row in rows.filter(condition).collect()}
        place = str(tmp_path / str(number))
        rows.write.format("delta").save(place)
        table = DeltaTable.forPath(session, place)
        if number % 2:
            table.update(condition, {"hit": "true"})
        else:
            source = rows.selectExpr("id AS other")
            merge = table.alias("t").merge(source, "t.id = other")
            merge.whenMatchedUpdate(condition, {"hit": "true"}).execute()
        assert {row.id for row in table.toDF().filter("hit").collect()} == found, condition
        session.sql(f"DELETE FROM delta.`{place}` WHERE {condition}")  # noqa: S608
        left = {row.id for row in table.toDF().collect()}
        assert left == {row.id for row in rows.collect()} - found, condition
    assert len(found) < 96


def test_a_value_of_several_kinds_of_times_is_the_session_s(lake, tmp_path):
    session, rows = _times(lake, "America/New_York", "true")
    place = str(tmp_path / "values")
    rows.selectExpr("*", "'' AS said").write.format("delta").save(place)
    table = DeltaTable.forPath(session, place)
    values = {"said": "concat('at ', at)", "at": "coalesce(day, at)"}
    expected = rows.selectExpr(
        "id", "unix_micros(coalesce(day, at)) a", "concat('at ', at) s"
    ).collect()
    table.update(set=values)
    stored = table.toDF().selectExpr("id", "unix_micros(at) a", "said s").collect()
    assert sorted(stored) == sorted(expected)
