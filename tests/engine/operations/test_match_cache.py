"""Retries: only the files that winning commits touched are read again."""

from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.operations.conftest import IN_PROCESS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

_VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = '{}')"


class _AfterFinding(TransactionObserver):
    """An action that runs once, when the first attempt has staged its matches."""

    def __init__(self, act) -> None:
        self._act = act

    def staged(self, _txn):
        act, self._act = self._act, lambda: None
        act()


@pytest.fixture
def table(do, empty_table):
    """Return files of (1, 2), (11, 12), (21, 22) and (31, 32)."""
    do(f"CREATE TABLE t (id BIGINT, v BIGINT) USING DELTA {_VECTORS.format('true')}")
    do("INSERT INTO t VALUES (1, 0), (2, 0)", in_process_bytes=IN_PROCESS)
    do("INSERT INTO t VALUES (11, 0), (12, 0)", in_process_bytes=IN_PROCESS)
    do("INSERT INTO t VALUES (21, 0), (22, 0)", in_process_bytes=IN_PROCESS)
    do("INSERT INTO t VALUES (31, 0), (32, 0)", in_process_bytes=IN_PROCESS)
    return empty_table


@pytest.fixture
def meanwhile(do, table):
    """Return a function that runs a statement by Spark, which loses to `winner` once.

    Its second attempt cannot read the rows of files that no winner touched, only their footers, which
    count the rows. The function returns the statement's progress messages.
    """

    def race(text, winner, **options):
        said = []
        kept = {path: path.read_bytes() for path in _data_files(table)}

        def act():
            do(winner, table=DeltaTable(table.store))
            for path in kept:
                path.write_bytes(_drop_rows(kept[path]))

        try:
            do(
                text,
                observer=_AfterFinding(act),
                progress=lambda progress: said.append(progress.detail),
                in_process_bytes=0,
                **options,
            )
        finally:
            for path, content in kept.items():
                path.write_bytes(content)
        return [words for words in said if "a match" in words]

    return race


def _drop_rows(parquet):
    """Overwrite a file except its footer and magic numbers."""
    footer = int.from_bytes(parquet[-8:-4], "little") + 8
    return parquet[:4] + b"\xff" * (len(parquet) - footer - 4) + parquet[-footer:]


def _data_files(table):
    root = Path(table.store.root.removeprefix("file://"))
    return [root / add.path for add in table.snapshot().add_files() if _first_id(add) != 1]


def _first_id(add):
    return int(add.stats.partition('"minValues":{"id":')[2].partition(",")[0])


def _rows(table):
    return {row["id"]: row["v"] for row in table.snapshot().to_arrow().to_pylist()}


def test_only_the_file_that_a_winner_touched_is_read_again(meanwhile, table):
    said = meanwhile(
        "DELETE FROM t WHERE (id % 10 = 1 AND id < 30) OR id % 100 = 22",
        "UPDATE t SET v = 7 WHERE id = 1",
        retries=1,
    )
    assert said == ["3 files hold a match", "3 files hold a match, 3 files not read again"]
    assert _rows(table) == {2: 0, 12: 0, 31: 0, 32: 0}


def test_the_winners_new_row_values_count(meanwhile, table):
    """The row no longer matches in the winner's new file, and the old file is not read again."""
    said = meanwhile(
        "DELETE FROM t WHERE v % 5 = 0 AND id % 10 = 1",
        "UPDATE t SET v = 7 WHERE id = 1",
        retries=1,
    )
    assert said[-1] == "3 files hold a match, 3 files not read again"
    assert _rows(table) == {1: 7, 2: 0, 12: 0, 22: 0, 32: 0}


@pytest.mark.parametrize(
    ("text", "winner"),
    [
        ("DELETE FROM t WHERE id % 10 = 1", "ALTER TABLE t ADD COLUMN w BIGINT"),
        (
            "DELETE FROM t WHERE id % 10 = 1 AND CAST(v AS TIMESTAMP) < current_timestamp()",
            "UPDATE t SET v = 7 WHERE id = 1",
        ),
    ],
)
def test_values_that_may_have_changed_are_read_again(meanwhile, text, winner):
    with pytest.raises(EngineError, match=r"(?i)parquet|read"):
        meanwhile(text, winner, retries=1)


def test_files_that_are_rewritten_are_read_again(do, meanwhile, table):
    """Without deletion vectors, nothing records the matching rows."""
    do("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    with pytest.raises(EngineError, match=r"(?i)parquet|read"):
        meanwhile("DELETE FROM t WHERE id % 10 = 1", "UPDATE t SET v = 7 WHERE id = 1", retries=1)
    assert len(_rows(table)) == 8
