"""`manage.py up` from nothing: the demo lake is filled by Spark, and conflicts really happen."""

import sqlite3

import pytest

from lakeui.local_stack.child import _session_of
from lakeui.local_stack.demo_steps import STEPS
from tests.lakeui.local_stack.test_up import Up
from tests.services import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]


@pytest.fixture
def up(tmp_path):
    stack = Up(tmp_path / "home")
    yield stack
    if stack.process.poll() is None:
        stack.stop()


def ask(up: Up, query: str) -> list[str]:
    connection = sqlite3.connect(f"file:{up.home}/lakeui.sqlite3?mode=ro", uri=True)
    try:
        return [row[0] for row in connection.execute(query)]
    finally:
        connection.close()


def test_the_demo_lake_is_filled_and_its_conflicts_are_recorded(up):
    wait_until(up.answers, "the first page", 60)
    done = "SELECT COUNT(*) FROM local_stack_demostep WHERE state IN ('done', 'failed')"
    wait_until(lambda: ask(up, done) == [len(STEPS)], "the end of the demo", 400)
    failed = "SELECT title || ': ' || message FROM local_stack_demostep WHERE state = 'failed'"
    assert ask(up, failed) == []
    assert set(ask(up, "SELECT exception FROM conflicts_conflict WHERE kind = 'escaped'")) >= {
        "ConcurrentAppendException",
        "ConcurrentDeleteReadException",
        "ConcurrentDeleteDeleteException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }
    assert ask(up, "SELECT COUNT(*) FROM conflicts_conflict WHERE kind = 'absorbed'") >= [2]
    assert ask(up, "SELECT name FROM catalog_table WHERE mirror_error <> ''") == []
    jobs = ask(up, "SELECT COUNT(*) FROM jobs_job")

    children = up.children()
    assert any("java" in command for command in children.values())
    up.stop()
    assert [pid for pid in children if _session_of(pid) is not None] == []

    up.process = up.start()
    wait_until(up.answers, "the first page of the second run", 30)
    demo_log = up.home / "logs/demo.log"
    wait_until(lambda: demo_log.read_text().count("as full as") == 2, "the second demo", 30)
    assert ask(up, "SELECT COUNT(*) FROM jobs_job") == jobs
