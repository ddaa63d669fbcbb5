"""The connector that Spark needs for a store, and the error if it cannot be fetched."""

import os
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from engine.storage.connectors import (
    CONNECTORS,
    ConnectorError,
    connector_jars,
    fetch_connector,
    hadoop_version,
    has_connector,
)

S3 = CONNECTORS["s3"]


def _maven(directory: Path, script: str) -> None:
    """Create a command with Maven's name that runs the given script."""
    place = directory / "mvn"
    place.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    place.chmod(0o755)
    os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    place = tmp_path / "tools"
    place.mkdir()
    return place


def test_without_maven_the_coordinates_and_the_place_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConnectorError, match=rf"hadoop-aws:{hadoop_version()}.*apt install maven"):
        fetch_connector(S3, tmp_path / "jars")


def test_an_unreachable_repository_is_reported_and_leaves_nothing(tmp_path, tools):
    _maven(tools, "echo '[ERROR] Could not transfer artifact'; exit 1")
    with pytest.raises(ConnectorError, match="Could not transfer artifact"):
        fetch_connector(S3, tmp_path / "jars")
    assert connector_jars(tmp_path / "jars") == []
    assert list((tmp_path / "jars").iterdir()) == []


def test_jars_that_spark_has_itself_are_left_out(tmp_path, tools):
    version = hadoop_version()
    names = f"hadoop-aws-{version}.jar commons-codec-1.0.jar bundle-2.jar"
    _maven(
        tools,
        'for a in "$@"; do case $a in -DoutputDirectory=*) d=${a#*=};; esac; done\n'
        f'mkdir -p "$d"; cd "$d"; touch {names}',
    )
    fetch_connector(S3, tmp_path / "jars")
    assert [jar.name for jar in connector_jars(tmp_path / "jars")] == [
        "bundle-2.jar",
        f"hadoop-aws-{version}.jar",
    ]
    assert has_connector(tmp_path / "jars", S3)


def test_the_command_lists_the_existing_tables(tmp_path, settings, capsys):
    settings.SPARK_CONNECTORS = tmp_path
    call_command("connectors", "s3")
    assert f"org.apache.hadoop:hadoop-aws:{hadoop_version()}" in capsys.readouterr().out
    with pytest.raises(CommandError, match="There is no connector hdfs"):
        call_command("connectors", "hdfs")
