"""A write that must abort ends while Spark still works, and leaves nothing behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.sql import parse_statement
from engine.deletion_vectors.files import locate
from engine.delta.exceptions import (
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from engine.operations import execution
from engine.operations.run import run
from engine.table import DeltaTable as EngineTable
from tests.engine.delta.conftest import Meanwhile
from tests.services import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


@pytest.fixture
def slow(tmp_path):
    """Return a text function that records its call and would take a minute."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def slowly(text):
        begun.touch()
        threading.Event().wait(60)
        ended.touch()
        return text

    slowly.begun, slowly.ended = begun, ended
    return slowly


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("ALTER TABLE t SET TBLPROPERTIES ('note' = 'x')", MetadataChangedException),
        ("DELETE FROM t WHERE key = 'a'", DeltaConcurrentModificationException),
    ],
)
def test_an_update_ends_before_its_rows_are_written(monkeypatch, slow, make, statement, kind):
    monkeypatch.setattr(execution, "LOOK_SECONDS", 0.0)
    table, value = make(), F.udf(slow, "string")(F.col("key"))
    uri = table._handle.table.uri
    other = EngineTable.open(uri)
    before = {file.path for file in other.store.list_all()}
    staged = []
    watched = table.observed(Meanwhile(lambda: staged.append("it went on to its commit")))
    with ThreadPoolExecutor(1) as pool:
        update = pool.submit(watched.update, F.col("key") == "a", {"key": value})
        wait_until(slow.begun.exists, "the UPDATE to compute its value")
        landed = run(parse_statement(statement), other, None)
        conflict = update.exception()
    assert isinstance(conflict, kind)
    assert conflict.conflict.winner.version == landed.version
    assert not staged
    assert not slow.ended.exists()
    new = {file.path for file in other.store.list_all()} - before
    named = {add.deletion_vector for add in other.snapshot().add_files()}
    kept = {
        locate(other.store.root, vector).path
        for vector in named
        if vector and vector.storage_type == "u"
    }
    assert {path for path in new if not path.startswith("_delta_log")} == kept
