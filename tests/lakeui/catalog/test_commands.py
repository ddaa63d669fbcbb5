"""`manage.py register` and `refresh`."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from lakeui.catalog.models import Commit, Table
from tests.lakeui.catalog.log_writer import add, append_commit, new_table

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    new_table(tmp_path / "orders")
    return tmp_path


def output(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_registering_prints_the_table(lake):
    registered = json.loads(
        output("register", str(lake / "orders"), "--name", "sales.orders", "-ojson")
    )
    assert (registered["name"], registered["version"], registered["problem"]) == (
        "sales.orders",
        0,
        "",
    )
    told = output("register", str(_other(lake)))
    assert "version  0" in told
    assert "problem" not in told, "there is none"


def test_registering_a_directory_without_a_table_fails_with_one_line(lake):
    with pytest.raises(CommandError, match="no Delta table"):
        output("register", str(lake / "nothing"))
    with pytest.raises(CommandError, match="TABLE_ROOTS"):
        output("register", "/etc")


def test_refreshing_mirrors_one_table_or_all(lake):
    output("register", str(lake / "orders"))
    append_commit(lake / "orders", 1, [add("a.parquet")])
    assert "version 1, 1 new" in output("refresh", "orders")
    assert json.loads(output("refresh", "-ojson"))[0]["new"] == 0
    Commit.objects.all().delete()
    assert "2 new" in output("refresh", "--rebuild")


def test_a_table_that_cannot_be_mirrored_makes_the_command_fail(lake):
    output("register", str(lake / "orders"))
    (lake / "orders").rename(lake / "away")
    with pytest.raises(CommandError, match="could not be mirrored"):
        output("refresh")
    with pytest.raises(CommandError, match="No table is called x"):
        output("refresh", "x")
    assert Table.objects.get().version == 0


def _other(lake):
    new_table(lake / "other")
    return lake / "other"
