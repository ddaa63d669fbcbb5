"""What-if replays with another level, or with other row-level concurrency."""

import json

import pytest

from engine.conflict_facts import Verdict
from engine.conflicts.isolation import IsolationLevel
from lakeui.catalog.models import Commit
from lakeui.conflicts.isolation.pairs import compute_matrix
from lakeui.conflicts.replay.overlaps import WriteOutcome, pair_changes, replay
from lakeui.conflicts.replay.recorded_history import find_out_of_order, latest_versions
from lakeui.conflicts.replay.what_if import what_if
from tests.lakeui.conflicts.histories import add, remove, replayable, set_commit_text
from tests.lakeui.people import make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db
RELAXED, STRICT = IsolationLevel.WRITE_SERIALIZABLE, IsolationLevel.SERIALIZABLE


@pytest.fixture
def table():
    return replayable(make_table())


def verdict(table, level, *, row_level=False, version=2):
    answer = what_if(table, level, row_level=row_level)
    return next(commit for commit in answer.commits if commit.version == version)


def test_a_delete_that_passed_an_append_would_be_aborted_at_serializable(table):
    assert verdict(table, RELAXED).verdict == Verdict.PASSES
    strict = verdict(table, STRICT)
    assert (strict.verdict, strict.rule) == (Verdict.CONFLICT, "data_added")
    assert (strict.winning_version, strict.overlapping_versions) == (1, (1,))


def test_another_partition_would_have_passed_at_both_levels():
    table = replayable(make_table(), part="b")
    assert {verdict(table, level).verdict for level in (RELAXED, STRICT)} == {Verdict.PASSES}


def test_rows_that_are_not_recorded_decide_nothing(table):
    result = verdict(table, STRICT, row_level=True)
    assert (result.verdict, "rows" in result.why) == (Verdict.UNDECIDABLE, True)


def test_a_write_whose_reads_are_not_recorded_is_undecidable():
    table = replayable(make_table(), operation="MERGE")
    assert verdict(table, STRICT).verdict == Verdict.UNDECIDABLE


def test_a_commit_that_is_not_kept_whole_is_named_and_decides_nothing(table):
    Commit.objects.filter(version=1).update(raw_bytes=10**6)
    answer = what_if(table, STRICT, row_level=False)
    assert answer.not_replayed == (1,)
    assert [(commit.version, commit.verdict) for commit in answer.commits] == [(2, "undecidable")]


@pytest.mark.parametrize("raw", ["", "not a log line", '{"add": 5}'])
def test_a_text_that_is_no_commit_is_not_replayed(table, raw):
    Commit.objects.filter(version=1).update(raw=raw, raw_bytes=len(raw))
    assert 1 in what_if(table, STRICT, row_level=False).not_replayed


def test_versions_that_the_mirror_lacks_are_not_replayed(table):
    Commit.objects.filter(version=1).delete()
    assert what_if(table, STRICT, row_level=False).not_replayed == (1,)


@pytest.mark.parametrize(
    ("fields", "level", "row_level", "expected"),
    [
        ({"rule": "metadata_changed"}, RELAXED, True, Verdict.CONFLICT),
        ({"rule": "data_added", "isolation_level": RELAXED}, STRICT, False, Verdict.CONFLICT),
        ({"rule": "data_added", "isolation_level": RELAXED}, RELAXED, False, Verdict.CONFLICT),
        ({"rule": "data_added", "isolation_level": STRICT}, RELAXED, False, Verdict.UNDECIDABLE),
        (
            {
                "rule": "data_added",
                "isolation_level": STRICT,
                "facts": {"winner": {"is_blind_append": True}},
            },
            RELAXED,
            False,
            Verdict.PASSES,
        ),
        (
            {
                "rule": "data_added",
                "isolation_level": STRICT,
                "facts": {"winner": {"is_blind_append": False}},
            },
            RELAXED,
            False,
            Verdict.CONFLICT,
        ),
        ({"rule": "removed_file_removed"}, RELAXED, False, Verdict.CONFLICT),
        ({"rule": "removed_file_removed"}, RELAXED, True, Verdict.UNDECIDABLE),
        ({"kind": "resolved", "rule": "data_added"}, RELAXED, False, Verdict.CONFLICT),
        ({"kind": "resolved", "rule": "protocol_changed"}, RELAXED, False, Verdict.PASSES),
        ({"kind": "resolved", "rule": "metadata_changed"}, STRICT, True, Verdict.PASSES),
        ({"kind": "resolved", "rule": "removed_file_removed"}, RELAXED, True, Verdict.PASSES),
        ({"kind": "resolved", "isolation_level": RELAXED}, STRICT, True, Verdict.UNDECIDABLE),
        ({"kind": "resolved", "isolation_level": STRICT}, STRICT, True, Verdict.PASSES),
    ],
)
def test_recorded_conflicts_are_judged_by_their_records(table, fields, level, row_level, expected):
    made = make_conflict(table, **fields)
    [judged] = what_if(table, level, row_level=row_level).conflicts
    assert (judged.conflict_id, judged.verdict) == (made.pk, expected)
    assert judged.why


def test_reported_conflicts_of_other_engines_are_not_judged(table):
    make_conflict(table, kind="reported")
    assert what_if(table, STRICT, row_level=False).conflicts == ()


def test_out_of_order_versions_are_those_of_writes_that_passed_an_append_over(table):
    [pair] = find_out_of_order(table, 0, 2)
    assert (pair.append_version, pair.version) == (1, 2)


def test_at_serializable_no_version_is_out_of_order():
    table = replayable(make_table(), isolationLevel="Serializable")
    assert find_out_of_order(table, 0, 2) == ()


def test_the_latest_versions_are_kept_to_the_cap():
    assert latest_versions(make_table(version=10_000), 10_000) == (9501, 10_000)
    assert latest_versions(make_table("t", version=None), 100) == (0, 0)


def test_the_matrix_is_that_of_the_tables_own_level_and_features():
    plain = make_table(isolation_level="Serializable")
    verdicts = {(cell.current, cell.winner): cell.verdict for cell in compute_matrix(plain)}
    assert verdicts["INSERT (blind)", "INSERT (blind)"] == "never"
    assert verdicts["UPDATE, DELETE, MERGE", "INSERT (blind)"] != "never"
    relaxed = {(cell.current, cell.winner): cell.verdict for cell in compute_matrix(plain, RELAXED)}
    assert relaxed["UPDATE, DELETE, MERGE", "INSERT (blind)"] == "never"


def strictly(table, **info):
    """Return the DELETE of version 2 as a writer that recorded its level would leave it."""
    return replayable(table, isolationLevel="Serializable", **info)


def test_a_write_that_committed_at_the_requested_level_passes_there():
    table = strictly(make_table(), operation="MERGE")
    result = verdict(table, STRICT, row_level=True)
    assert (result.verdict, "committed at this level" in result.why) == (Verdict.PASSES, True)


def test_by_files_a_commit_that_rows_kept_apart_loses(table):
    job = make_job(table, committed_version=2)
    made = make_conflict(table, job=job, kind="resolved", winning_version=1)
    answer = what_if(table, RELAXED, row_level=False)
    assert answer.conflicts[0].version == 2
    assert [
        (commit.version, commit.verdict, commit.winning_version) for commit in answer.commits
    ] == [(2, Verdict.CONFLICT, 1)]
    [one] = replay(table, RELAXED, row_level=False, versions=(0, 2)).overlaps
    assert (one.conflict_id, one.outcome, one.change) == (made.pk, WriteOutcome.RESOLVED, 1)


def test_the_four_settings_are_summed_with_their_costs(table):
    table.commits.filter(version=2).update(
        bytes_written=4096, operation_metrics={"executionTimeMs": "7000"}
    )
    replayed = replay(table, STRICT, row_level=False, versions=(0, 2))
    sums = {(total.level, total.row_level): total for total in replayed.totals}
    assert (replayed.asked.added, replayed.asked.ms, replayed.asked.size_bytes) == (1, 7000, 4096)
    assert sums["WriteSerializable", False].added == 0
    assert (sums["Serializable", True].added, sums["Serializable", True].open) == (0, 1)


def test_an_aborted_write_that_would_pass_saves_its_cost(table):
    facts = {"winner": {"is_blind_append": True}}
    make_conflict(
        table, rule="data_added", isolation_level=STRICT, facts=facts, wasted_ms=900,
        wasted_bytes=50, winning_version=1,
    )  # fmt: skip
    replayed = replay(table, RELAXED, row_level=False, versions=(0, 2))
    assert (replayed.aborted_now, replayed.asked.spared, replayed.asked.aborted) == (1, 1, 0)
    assert (replayed.asked.ms, replayed.asked.size_bytes) == (-900, -50)
    [pair] = pair_changes(replayed.overlaps)
    assert (pair.current_operation, pair.now, pair.then) == ("UPDATE", 1, 0)


def test_of_a_write_without_times_no_cost_is_invented(table):
    assert replay(table, STRICT, row_level=False, versions=(0, 2)).asked.uncosted == 1


@pytest.mark.parametrize("operation", ["RESTORE", "ADD CONSTRAINT"])
def test_an_operation_that_counts_appends_at_every_level_is_not_spared_by_the_relaxed_one(
    table, operation
):
    make_conflict(
        table, rule="data_added", isolation_level=STRICT, current_operation=operation,
        facts={"winner": {"is_blind_append": True}},
    )  # fmt: skip
    [judged] = what_if(table, RELAXED, row_level=False).conflicts
    assert judged.verdict == Verdict.CONFLICT


def test_a_compaction_is_traced_where_vectors_are_on_and_files_decide(table):
    """The table is partitioned with deletion vectors: version 2 passed an OPTIMIZE by tracing its rows."""
    table.deletion_vectors, table.row_level_eligible = True, False
    table.save()
    set_commit_text(
        table, 1, add("w", data_change=False), remove("f"), operation="OPTIMIZE", readVersion=0
    )
    Commit.objects.filter(version=1).update(operation="OPTIMIZE", is_blind_append=False)
    delete = {"predicate": json.dumps(["part = 'a'"])}
    set_commit_text(
        table, 2, remove("f"), add("g"), operation="DELETE", readVersion=0, isBlindAppend=False,
        isolationLevel=RELAXED, operationParameters=delete,
    )  # fmt: skip
    make_conflict(
        table, kind="resolved", rule="read_file_removed", isolation_level=RELAXED,
        winning_version=1, attempted_version=2, winner_operation="OPTIMIZE",
        current_operation="DELETE",
    )  # fmt: skip
    answer = what_if(table, RELAXED, row_level=False)
    assert {judged.verdict for judged in answer.conflicts} == {Verdict.PASSES}
    assert {commit.verdict for commit in answer.commits} == {Verdict.PASSES}
    table.deletion_vectors, table.row_level_eligible = True, True
    table.save()
    without = what_if(table, RELAXED, row_level=False)
    assert {judged.verdict for judged in without.conflicts} == {Verdict.CONFLICT}
    assert {commit.verdict for commit in without.commits} == {Verdict.CONFLICT}
