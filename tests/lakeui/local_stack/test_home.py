"""The stack's directory: made once, private, with a key of its own."""

import os
import stat

import pytest

from lakeui.local_stack import home


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
