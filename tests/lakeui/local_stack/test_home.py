"""The stack's directory: made once, private, with a key of its own."""

import os
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
    return tmp_path / "home"


def test_the_key_is_drawn_once_and_readable_by_its_owner_alone(place):
    home.prepare_home()
    key = (place / "secret_key").read_text()
    assert len(key) >= 50
    assert stat.S_IMODE((place / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    home.prepare_home()
    assert (place / "secret_key").read_text() == key


def test_a_key_in_the_environment_makes_no_file(place, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "k" * 50)
    home.prepare_home()
    assert not (place / "secret_key").exists()


def test_children_are_told_where_the_home_is(place):
    home.prepare_home()
    assert os.environ["LAKEUI_HOME"] == str(place)
    assert os.environ["LAKEUI_EMBEDDED"] == "1"


def test_roots_that_a_start_named_hold_until_another_names_others(place):
    home.prepare_home()
    assert home.remembered_roots(place, "TABLE_ROOTS") == []
    home.remember_roots(place, {"TABLE_ROOTS": "/data/lake, s3://lake", "SOURCE_ROOTS": "/in"})
    home.remember_roots(place, {"PATH": "/bin"})
    assert home.remembered_roots(place, "TABLE_ROOTS") == ["/data/lake", "s3://lake"]
    home.remember_roots(place, {"TABLE_ROOTS": ""})
    assert home.remembered_roots(place, "TABLE_ROOTS") == []
    assert home.remembered_roots(place, "SOURCE_ROOTS") == ["/in"]


def test_commands_in_another_shell_have_the_roots_of_the_running_stack(place):
    home.prepare_home()
    home.remember_roots(place, {"TABLE_ROOTS": "/data/lake"})
    asked = "from django.conf import settings; print(settings.TABLE_ROOTS[:-1])"
    shell = {name: value for name, value in os.environ.items() if name != "TABLE_ROOTS"}
    for given, roots in ((shell, ["/data/lake"]), (shell | {"TABLE_ROOTS": "/b"}, ["/b"])):
        command = [sys.executable, "manage.py", "shell", "-v0", "-c", asked]
        done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
        assert done.stdout.decode().strip().splitlines()[-1] == str(roots)
