"""Scripts without Spark: several tables, one commit each, and the error that lists them."""

import pytest

from engine.commands.sql import parse_statement
from engine.errors import OperationCancelledError, RequestError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.operations.script import ScriptError
from engine.schema.types import LONG, StructField, StructType
from engine.table import DeltaTable

FIRST = "ALTER TABLE a SET TBLPROPERTIES ('team' = 'x')"
SECOND = "ALTER TABLE b SET TBLPROPERTIES ('team' = 'y')"
WRONG = "ALTER TABLE b UNSET TBLPROPERTIES ('nobody')"


@pytest.fixture
def tables(tmp_path):
    schema = StructType((StructField("id", LONG),))
    return {name: DeltaTable.create(str(tmp_path / name), schema) for name in "abt"}


def _run(tables, *statements, **options):
    script = parse_statement("; ".join(statements))
    options = RunOptions(open_changed=tables.__getitem__, **options)
    return run(script, tables["t"], None, options)


def _versions(tables):
    return {name: table.version() for name, table in tables.items()}


def test_each_step_is_a_commit_of_its_own_table(tables):
    result = _run(tables, FIRST, SECOND, "TRUNCATE TABLE t", FIRST.replace("'x'", "'z'"))
    assert _versions(tables) == {"a": 2, "b": 1, "t": 0}
    assert result.versions == (1, 1, 2)
    assert result.metrics == {"numSteps": 4, "numCommittedSteps": 3}
    assert result.message.startswith("Step 1 committed version 1 of a; step 2 committed version 1")
    assert "step 3 changed nothing" in result.message


def test_a_step_that_fails_lists_the_committed_steps(tables):
    with pytest.raises(
        ScriptError, match="The steps before it stay committed: step 1 committed"
    ) as caught:
        _run(tables, FIRST, WRONG, SECOND)
    assert caught.value.facts()["ended"] == [{"step": 1, "table": "a", "version": 1}]
    assert (caught.value.step, isinstance(caught.value.cause, RequestError)) == (2, True)
    assert _versions(tables) == {"a": 1, "b": 0, "t": 0}
    with pytest.raises(ScriptError, match="Nothing was committed"):
        _run(tables, WRONG, FIRST)


def test_a_rerun_of_the_same_job_commits_no_step_twice(tables):
    bases = {table.uri: table.version() for table in tables.values()}
    for _ in range(2):
        result = _run(tables, FIRST, SECOND, txn_id="job", since_versions=bases)
        assert _versions(tables) == {"a": 1, "b": 1, "t": 0}
    assert result.recognized
    own = [tables[name].history(1)[0].txn_id for name in "ab"]
    assert len(set(own)) == 2


def test_a_script_can_be_cancelled_between_its_steps(tables):
    def progress(_):
        if tables["a"].version() > 0:
            what = "Cancelled."
            raise OperationCancelledError(what)

    with pytest.raises(ScriptError, match="step 1 committed") as caught:
        _run(tables, FIRST, SECOND, progress=progress)
    assert isinstance(caught.value.cause, OperationCancelledError)


def test_a_dry_run_plans_every_step_and_changes_nothing(tables):
    plan = _run(tables, "TRUNCATE TABLE a", "TRUNCATE TABLE t", dry_run=True).plan
    assert plan.summary.count("Step") == 2
    assert _versions(tables) == {"a": 0, "b": 0, "t": 0}


def test_a_script_creates_tables_and_uses_them(tables, tmp_path):
    made, copy = (f"delta.`{tmp_path / name}`" for name in ("made", "copy"))
    statements = (
        f"CREATE TABLE {made} (id BIGINT)",
        f"ALTER TABLE {made} SET TBLPROPERTIES ('team' = 'x')",
        f"CREATE TABLE {copy} SHALLOW CLONE {made}",
    )
    script = parse_statement("; ".join(statements))
    result = run(script, tables["t"], None, txn_id="job")
    assert result.versions == (0, 1, 0)
    uris = [str(tmp_path / name) for name in ("made", "copy")]
    again = run(
        script, tables["t"], None, RunOptions(txn_id="job", since_versions=dict.fromkeys(uris, -1))
    )
    assert again.recognized
    assert [DeltaTable.open(uri).version() for uri in uris] == [1, 0]
    with pytest.raises(ScriptError, match="already a Delta table"):
        run(script, tables["t"], None)
