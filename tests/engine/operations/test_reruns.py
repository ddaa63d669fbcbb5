"""Two runs of one job at the same time: the job takes effect once, whichever run is first."""

import pytest

from engine.transaction.observer import TransactionObserver

JOB = {"txn_id": "job-1", "since_version": 1}
STATEMENTS = (
    "INSERT INTO t VALUES (2, 0)",
    "UPDATE t SET v = v + 1",
    "MERGE INTO t USING (VALUES (1, 5), (3, 0)) AS s (id, v) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *",
)


@pytest.fixture
def rows(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, v INT) USING DELTA")
    do_lightly("INSERT INTO t VALUES (1, 0)")
    return lambda: sorted(map(str, empty_table.snapshot().to_arrow().to_pylist()))


def _once(act):
    """Return a progress callback that acts when the run is about to read, after it looked for its own commit."""
    todo = [act]
    return lambda _progress: todo.pop()() if todo else None


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_run_that_lands_after_another_one_looked_for_it_is_found(do_lightly, rows, statement):
    first, after = [], []

    def other_run():
        first.append(do_lightly(statement, **JOB))
        after.append(rows())

    second = do_lightly(statement, **JOB, progress=_once(other_run))
    assert (second.version, second.recognized, second.versions) == (2, True, (2,))
    assert [rows()] == after
    assert not first[0].recognized


def test_a_retried_run_finds_the_commit_that_another_run_landed_meanwhile(do_lightly, rows):
    """The first transaction has a conflict before it finds the other run's commit."""
    update = "UPDATE t SET v = v + 1 WHERE id = 1"

    class Meanwhile(TransactionObserver):
        begun = 0

        def staged(self, _txn):
            self.begun += 1
            if self.begun == 1:
                do_lightly("UPDATE t SET v = 10 WHERE id = 1")
                do_lightly(update, **JOB)

    result = do_lightly(update, **JOB, observer=Meanwhile(), retries=1)
    assert (result.version, result.recognized) == (3, True)
    assert rows() == ["{'id': 1, 'v': 11}"]


def test_a_dry_run_of_a_job_that_has_landed_is_planned(do_lightly, rows):
    do_lightly(STATEMENTS[0], **JOB)
    before = rows()
    assert do_lightly("DELETE FROM t", **JOB, dry_run=True).plan is not None
    assert rows() == before
