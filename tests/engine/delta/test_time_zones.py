"""Times are stored by the time zone of the caller's session, whatever the engine computes in."""

import pytest

from engine.delta import DeltaTable
from engine.errors import EngineError

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


def test_a_time_that_becomes_text_is_told_by_the_session_s_zone(table):
    table.update(set={"said": "at"})
    assert _row(table)[1] == "2024-07-01 12:00:00"


def test_what_a_merge_sets_is_cast_by_the_session_s_zone(table):
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
