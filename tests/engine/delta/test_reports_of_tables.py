"""A program that uses `DeltaTable` reports without a line of its own but where to."""

import pytest

import engine.delta
from engine.delta.reports.settings import outbox, stop_reports
from engine.delta.tables import DeltaTable
from tests.engine.delta.dashboards import desk

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_writes_of_a_delta_table_are_reported(make, tmp_path):
    table = make()
    with desk() as dashboard:
        engine.delta.configure(report_to=dashboard.url, token="lake_x", spool=tmp_path / "spool")
        try:
            assert isinstance(table, DeltaTable)
            table.delete("key = 'a'")
            assert outbox() is not None
            assert engine.delta.flush_reports(60)
        finally:
            stop_reports()
    begun, committed = dashboard.events
    assert (begun["kind"], committed["kind"]) == ("begun", "committed")
    assert begun["operation"] == "DELETE"
    assert "key = 'a'" in begun["statement"]
    assert committed["version"] == begun["read_version"] + 1
    (application,) = {body["writer"]["application"] for body in dashboard.bodies}
    assert application == "tests"
