"""Preflight checks: one line for each missing prerequisite, with the remedy."""

import socket

import pytest

from lakeui.local_stack import preflight


def test_a_busy_port_is_named_with_a_free_one(settings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        problem = preflight.port_problem(port)
    assert f"Port {port} cannot be used" in problem
    assert "PORT=" in problem
    assert "\n" not in problem


@pytest.mark.parametrize("port", [0x10000, 99999])
def test_an_invalid_port_is_refused(port):
    assert "is not a port" in preflight.port_problem(port)


def test_missing_java_is_named_with_how_to_get_it(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    problem = preflight.java_problem()
    assert "Java" in problem
    assert "install" in problem.lower()
    assert "\n" not in problem


def test_a_directory_that_cannot_be_written_is_named(settings, tmp_path):
    settings.LAKEUI_HOME = tmp_path / "not-there"
    assert "LAKEUI_HOME" in preflight.storage_problem()


def test_there_is_a_redis_server_on_this_machine(monkeypatch):
    monkeypatch.delenv("BROKER_URL")
    assert preflight.broker_problem() == ""
