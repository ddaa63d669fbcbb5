"""The stack's directory: created once, private, with its own secret key."""

import os
import sqlite3
import stat
import subprocess
import sys

import pytest

from lakeui.local_stack import home
from tests.services import ROOT


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKEUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SECRET_KEY")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return tmp_path / "home"


def test_the_key_is_drawn_once_and_readable_by_its_owner_alone(place):
    home.prepare_home()
    key = (place / "secret_key").read_text()
    assert len(key) >= 50
    assert stat.S_IMODE((place / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    home.prepare_home()
    assert (place / "secret_key").read_text() == key


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(place):
    return {
        str(path.relative_to(place)): (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in place.rglob("*")
    }


def test_its_contents_are_for_the_owner_alone_under_any_umask(place, umask):
    home.prepare_home()
    home.remember_roots(place, {"TABLE_ROOTS": "/data/lake"})
    home.remember_url(place, "http://127.0.0.1:8000")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    by_name = modes(place)
    assert {"lakeui.sqlite3", "secret_key", "run/url", "run/roots.json", "uploads"} < by_name.keys()
    assert {mode for is_directory, mode in by_name.values() if is_directory} == {0o700}
    assert {mode for is_directory, mode in by_name.values() if not is_directory} == {0o600}


def test_files_that_an_earlier_start_left_open_to_others_are_closed(place):
    home.prepare_home()
    wide = ["lakeui.sqlite3", "lakeui.sqlite3-wal", "lakeui.sqlite3-shm", "logs", "uploads"]
    (place / "lakeui.sqlite3-wal").touch()
    (place / "lakeui.sqlite3-shm").touch()
    for name in wide:
        (place / name).chmod(0o755)
    home.prepare_home()
    assert {name: modes(place)[name][1] & 0o077 for name in wide} == dict.fromkeys(wide, 0)


def test_files_beside_the_database_are_for_its_owner_alone_too(place, umask):
    home.prepare_home()
    connection = sqlite3.connect(place / "lakeui.sqlite3")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (x)")
    by_name = {name: mode for name, (_, mode) in modes(place).items() if "sqlite3" in name}
    connection.close()
    assert by_name == dict.fromkeys(
        ["lakeui.sqlite3", "lakeui.sqlite3-wal", "lakeui.sqlite3-shm"], 0o600
    )


def test_a_database_elsewhere_leaves_none_here(place, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://somewhere/else")
    home.prepare_home()
    assert not (place / "lakeui.sqlite3").exists()


def test_a_key_in_the_environment_makes_no_file(place, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "k" * 50)
    home.prepare_home()
    assert not (place / "secret_key").exists()


def test_children_know_the_home(place):
    home.prepare_home()
    assert os.environ["LAKEUI_HOME"] == str(place)
    assert os.environ["LAKEUI_EMBEDDED"] == "1"


def test_roots_that_a_start_named_hold_until_another_names_others(place):
    home.prepare_home()
    assert home.read_roots(place, "TABLE_ROOTS") == []
    home.remember_roots(place, {"TABLE_ROOTS": "/data/lake, s3://lake", "SOURCE_ROOTS": "/in"})
    home.remember_roots(place, {"PATH": "/bin"})
    assert home.read_roots(place, "TABLE_ROOTS") == ["/data/lake", "s3://lake"]
    home.remember_roots(place, {"TABLE_ROOTS": ""})
    assert home.read_roots(place, "TABLE_ROOTS") == []
    assert home.read_roots(place, "SOURCE_ROOTS") == ["/in"]


def test_commands_in_another_shell_have_the_roots_and_the_address_of_the_running_stack(place):
    home.prepare_home()
    home.remember_roots(place, {"TABLE_ROOTS": "/data/lake"})
    home.remember_url(place, "http://127.0.0.1:8140")
    asked = (
        "from django.conf import settings; print(settings.TABLE_ROOTS[:-1], settings.PUBLIC_URL)"
    )
    shell = {name: value for name, value in os.environ.items() if name != "TABLE_ROOTS"}
    named = shell | {"TABLE_ROOTS": "/b", "PUBLIC_URL": "https://lake"}
    for given, said in (
        (shell, "['/data/lake'] http://127.0.0.1:8140"),
        (named, "['/b'] https://lake"),
    ):
        command = [sys.executable, "-c", asked]
        done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
        assert done.stdout.decode().strip().splitlines()[-1] == said


def test_connectors_are_fetched_in_a_fresh_checkout_without_a_key(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "SECRET_KEY"}
    done = subprocess.run(
        [sys.executable, "manage.py", "connectors", "s3"],
        cwd=ROOT,
        env={**environment, "LAKEUI_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hadoop-aws" in done.stdout
