"""Commands with an unreachable or unmigrated database: one line with the remedy, never a traceback."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.lakeui.catalog.log_writer import new_table
from tests.migrated import copy_for_process
from tests.ports import dead_port
from tests.services import wait_until
from tests.shares import share

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).resolve().parents[3]
KEY = "a-key-of-a-test-that-signs-nothing-of-worth"
COMMANDS = [
    ["token", "airflow", "--list"],
    ["job", "OPTIMIZE sales.orders", "--wait"],
    ["createsuperuser", "--noinput", "--username", "anna", "--email", "a@example.com"],
]


def start(command, home, **more):
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"LAKEUI_HOME": str(home), "SECRET_KEY": KEY, "TABLE_ROOTS": str(home)} | more
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def outcome(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err.strip().splitlines()


@pytest.fixture(scope="module")
def dead():
    with dead_port() as port:
        yield f"postgres://nobody:hunter22@127.0.0.1:{port}/lake"


def outcomes_of(commands, home, **more):
    new_table(home / "orders")
    for process in [start(command, home, **more) for command in commands]:
        code, _, lines = outcome(process)
        assert (code, len(lines)) == (1, 1), lines
        yield lines[0]


def test_an_unreachable_database_is_reported_in_a_line(tmp_path, dead):
    commands = share(9, [["register", str(tmp_path / "orders")], *COMMANDS])
    for line in outcomes_of(commands, tmp_path, DATABASE_URL=dead):
        assert line.startswith("CommandError: The database is unreachable: ")
        assert line.endswith("Check DATABASE_URL and that the database is running.")
        assert "hunter22" not in line


def test_an_unmigrated_database_is_reported_in_a_line(tmp_path):
    commands = share(9, [["discover", str(tmp_path)], *COMMANDS])
    for line in outcomes_of(commands, tmp_path):
        assert line.startswith("CommandError: The database is not migrated: ")
        assert line.endswith(" migrations wait. Run manage.py migrate.")


def test_the_error_itself_is_shown_on_request(tmp_path):
    code, _, lines = outcome(start(["refresh", "--traceback"], tmp_path))
    assert (code, lines[0]) == (1, "Traceback (most recent call last):")


def test_wrong_settings_are_reported_in_a_line(tmp_path):
    code, _, lines = outcome(start(["refresh"], tmp_path, SECRET_KEY="short"))
    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith("CommandError: SECRET_KEY is missing")


def test_a_wait_for_a_job_ends_with_the_database_but_the_job_does_not(
    tmp_path, dead, django_db_setup
):
    new_table(tmp_path / "orders")
    broker = {"BROKER_URL": f"redis://{dead.partition('@')[2].removesuffix('lake')}0"}
    copy_for_process(tmp_path / "lakeui.sqlite3")
    register = ["register", str(tmp_path / "orders"), "--name", "orders"]
    assert outcome(start(register, tmp_path, **broker))[0] == 0
    waiting = start(["job", "OPTIMIZE orders", "--wait"], tmp_path, **broker)
    with closing(sqlite3.connect(tmp_path / "lakeui.sqlite3", timeout=30)) as database:

        def has_asked():
            assert waiting.poll() is None, waiting.stderr.read()
            return bool(database.execute("SELECT count(*) FROM jobs_job").fetchone()[0])

        wait_until(has_asked, "the job")
        database.execute("ALTER TABLE jobs_job RENAME TO gone")
        database.commit()
        code, _, lines = outcome(waiting)
    assert code == 5, lines
    assert lines[-1].startswith("CommandError: The database is unreachable. Job ")
    assert lines[-1].endswith("continues. Only the wait has ended.")
