"""`manage.py explain`, and its use of the mirror."""

import io
import json
from datetime import UTC, datetime

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.reports.links import explain_report, record_report
from tests.lakeui.people import make_table, person

pytestmark = pytest.mark.django_db
TEXT = (
    "ConcurrentAppendException: Files were added to partition [a=1] by a concurrent update.\n"
    'Conflicting commit: {{"timestamp":{at},"operation":"DELETE","readVersion":1,"txnId":"{txn}"}}'
)
NEW = (
    "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected. A concurrent DELETE "
    "added data to table {table} committed at version {version}."
)


@pytest.fixture
def table():
    made = make_table()
    Commit.objects.filter(version=2).update(
        txn_id="txn-2", committed_at=datetime(2026, 11, 2, 14, 0, 0, 123000, tzinfo=UTC)
    )
    return made


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (TEXT.format(at=5, txn="txn-2"), "its transaction id"),
        (TEXT.format(at=1793628000123, txn="other"), "its time and operation"),
        (NEW.format(table="sales.orders", version=2), "its version"),
        (NEW.format(table="main.sales.orders", version=2), "its version"),
        (NEW.format(table="`main`.`sales`.`orders`", version=2), "its version"),
    ],
)
def test_the_winner_is_found_in_the_mirror(table, text, how):
    linked = explain_report(text, Table.objects.all())
    assert (linked.table, linked.winning_version, linked.how) == (table, 2, how)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.format(at=5, txn="unknown"),
        NEW.format(table="elsewhere", version=2),
        NEW.format(table="sales.orders", version=99),
        TEXT.format(at=10**18, txn="x"),
    ],
)
def test_a_missing_winner_is_not_guessed(table, text):
    assert explain_report(text, Table.objects.all()).commit is None


def test_tables_one_may_not_see_are_not_searched(table):
    linked = explain_report(TEXT.format(at=5, txn="txn-2"), Table.objects.none())
    assert (linked.table, linked.commit) == (None, None)


def test_a_report_is_stored_with_its_known_facts(table):
    linked = explain_report(TEXT.format(at=1793628000123, txn="txn-2"), Table.objects.all())
    kept = record_report(linked, person("ann"))
    assert (kept.kind, kept.table, kept.winning_version) == ("reported", table, 2)
    assert (kept.partitions, kept.current_user_name) == (["a=1"], "ann")
    assert kept.winner_at == datetime(2026, 11, 2, 14, 0, 0, 123000, tzinfo=UTC)


def test_a_text_without_a_conflict_leaves_nothing_behind():
    assert record_report(explain_report("hello", Table.objects.all()), None) is None
    assert not Conflict.objects.exists()


def run(monkeypatch, text, *arguments):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    out = io.StringIO()
    status = 0
    try:
        call_command("explain", "-", *arguments, stdout=out)
    except SystemExit as ended:
        status = ended.code
    return status, out.getvalue()


def test_the_command_ends_with_3_on_a_conflict(monkeypatch, table):
    status, out = run(monkeypatch, TEXT.format(at=5, txn="txn-2"))
    assert status == 3
    assert "ConcurrentAppendException" in out
    assert "version 2 DELETE" in out
    assert "How to avoid it" in out


def test_the_command_speaks_json(monkeypatch, table):
    status, out = run(monkeypatch, TEXT.format(at=5, txn="txn-2"), "-o", "json")
    assert (status, json.loads(out)["winning_version"]) == (3, 2)


def test_the_command_names_what_it_recognized_where_there_is_no_conflict(monkeypatch):
    status, out = run(monkeypatch, "java.io.IOException: x")
    assert status == 0
    assert "java.io.IOException" in out


def test_a_file_is_read_whatever_its_bytes(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xff ConcurrentAppendException \xfe")
    with pytest.raises(SystemExit) as ended:
        call_command("explain", str(path), stdout=io.StringIO())
    assert ended.value.code == 3


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("explain", str(tmp_path / "none"))
    (tmp_path / "empty").write_text("")
    with pytest.raises(CommandError, match="The text is empty"):
        call_command("explain", str(tmp_path / "empty"))
