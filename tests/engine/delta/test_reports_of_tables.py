"""A program that uses `DeltaTable` reports with no code beyond the dashboard's address."""

import pytest

import engine.delta
from engine.delta.tables import DeltaTable
from engine.reports.settings import stop_reports
from tests.engine.delta.dashboards import desk

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def reports(tmp_path):
    with desk() as dashboard:
        engine.delta.configure(report_to=dashboard.url, token="lake_x", spool=tmp_path / "spool")
        try:
            yield dashboard
        finally:
            stop_reports()


def test_writes_of_a_delta_table_are_reported(make, reports):
    table = make()
    assert engine.delta.flush_reports(60)
    del reports.bodies[:]
    table.delete("key = 'a'")
    assert engine.delta.flush_reports(60)
    begun, committed = reports.events
    assert (begun["kind"], committed["kind"]) == ("begun", "committed")
    assert begun["operation"] == "DELETE"
    assert "key = 'a'" in begun["statement"]
    assert committed["version"] == begun["read_version"] + 1
    (application,) = {body["writer"]["application"] for body in reports.bodies}
    assert application == "tests"


def test_a_merge_of_a_dataframe_that_changes_nothing_ends(spark, make, reports):
    table = make()
    assert engine.delta.flush_reports(60)
    del reports.bodies[:]
    source = spark.createDataFrame([("z", 1)], "key string, value bigint")
    table.alias("t").merge(source.alias("s"), "t.key = s.key").whenMatchedUpdateAll().execute()
    assert engine.delta.flush_reports(60)
    kinds = [event["kind"] for event in reports.events]
    assert kinds[0] == "begun"
    assert kinds[1:] in (["ended"], ["committed"])


def test_a_conversion_is_reported(spark, tmp_path, reports):
    place = str(tmp_path / "plain")
    spark.range(3).write.parquet(place)
    DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
    assert engine.delta.flush_reports(60)
    begun, committed = reports.events
    assert (begun["read_version"], committed["version"]) == (-1, 0)
    assert begun["table"] == place


def test_statements_and_dataframes_of_an_enabled_session_are_reported(lake, tmp_path, reports):
    place = str(tmp_path / "orders")
    lake.range(3).write.format("delta").save(place)
    lake.sql(f"DELETE FROM delta.`{place}` WHERE id = 1")  # noqa: S608 - a path of the test
    assert engine.delta.flush_reports(60)
    told = [(event["kind"], event.get("version")) for event in reports.events]
    assert told == [("begun", None), ("committed", 0), ("begun", None), ("committed", 1)]
    assert {event["table"] for event in reports.events} == {place}
    assert reports.events[2]["operation"] == "DELETE"
    assert "id = 1" in reports.events[2]["statement"]
