"""Overlaps of writes, reordered ones, and the effect of other settings."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from engine.actions.files import AddFile, RemoveFile
from engine.conflicts.isolation import IsolationLevel
from engine.schema.types import INTEGER, StructField, StructType
from engine.table import DeltaTable
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.registration import register_table
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.isolation.effect import effect_of
from lakeui.conflicts.isolation.overlaps import MAX_VERSIONS, overlap_rows, overlaps_of
from lakeui.conflicts.isolation.pairs import list_observed_pairs, table_matrix
from lakeui.conflicts.isolation.reordering import (
    find_out_of_order,
    find_out_of_order_among,
    rows_of_versions,
)
from lakeui.conflicts.isolation.settings import (
    LEVEL,
    VECTORS,
    Proposal,
    preview_commits,
    proposal_of,
    propose_setting,
    settings_history,
)
from lakeui.conflicts.statements.text import statement_kind
from tests.engine.made_tables import stage
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table
from tests.lakeui.people import make_table as small_table

pytestmark = pytest.mark.django_db


@pytest.fixture
def table():
    """Return a table whose v10, a MERGE that read v6, overlapped with a blind append, a MERGE and a ZORDER."""
    made = make_table(version=12)
    now = timezone.now()
    for version, operation, read in (
        (6, "WRITE", 5),
        (7, "STREAMING UPDATE", 6),
        (8, "MERGE", 7),
        (9, "OPTIMIZE", 8),
        (10, "MERGE", 6),
        (11, "WRITE", None),
        (12, "WRITE", 11),
    ):
        zorder = {"zOrderBy": '["a"]'} if operation == "OPTIMIZE" else {"mode": "Append"}
        make_commit(
            made, version, operation, read_version=read, operation_parameters=zorder,
            committed_at=now - timedelta(hours=20 - version), rows_added=7,
        )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("operation", "how", "kind"),
    [
        ("WRITE", {}, "INSERT"),
        ("WRITE", {"is_blind_append": False}, "other"),
        ("STREAMING UPDATE", {"is_blind_append": True}, "INSERT"),
        ("OPTIMIZE", {"z_order": "[]"}, "OPTIMIZE"),
        ("OPTIMIZE", {"z_order": '["a"]'}, "OPTIMIZE ZORDER BY"),
        ("SET TBLPROPERTIES", {}, "ALTER, SET"),
        ("RESTORE", {}, "other"),
        ("", {}, "other"),
    ],
)
def test_an_operation_has_one_kind(operation, how, kind):
    assert statement_kind(operation, **how) == kind


def test_a_commit_overlaps_with_the_commits_between_its_read_and_itself(table):
    met = overlaps_of(table)
    assert met.counts == {
        ("MERGE", "INSERT"): 1,
        ("MERGE", "MERGE"): 1,
        ("MERGE", "OPTIMIZE ZORDER BY"): 1,
    }
    assert (met.total, met.commits, met.first, met.last) == (3, 7, 6, 12)


def test_a_commit_without_a_recorded_read_is_counted_separately(table):
    assert overlaps_of(table).unrecorded == 1


def test_a_lost_attempt_overlapped_with_its_winner_and_the_commits_before_it(table):
    make_conflict(table, read_version=8, winning_version=10)
    met = overlaps_of(table)
    assert met.counts["UPDATE", "OPTIMIZE ZORDER BY"] == 1
    assert met.counts["UPDATE", "MERGE"] == 1


def test_commits_older_than_the_window_are_not_counted(table):
    Commit.objects.filter(table=table).update(committed_at=timezone.now() - timedelta(days=31))
    assert overlaps_of(table).total == 0


def test_overlaps_cost_two_queries_for_any_number_of_them(table):
    now = timezone.now()
    Commit.objects.filter(table=table).delete()
    Commit.objects.bulk_create(
        Commit(
            table=table, version=n, operation=("MERGE", "WRITE")[n % 2], read_version=max(n - 500, 0),
            is_blind_append=bool(n % 2), changes_data=True, committed_at=now, files_added=1,
        )
        for n in range(MAX_VERSIONS + 10)
    )  # fmt: skip
    with CaptureQueriesContext(connection) as asked:
        met = overlaps_of(table)
    assert len(asked) == 2
    assert (met.is_capped, met.commits) == (True, MAX_VERSIONS)
    assert met.counts["MERGE", "INSERT"] > 500_000


def test_an_overlap_says_how_it_ended(table):
    job = make_job(table, "merge", committed_version=10)
    make_conflict(table, job=job, kind="resolved", winning_version=8, current_operation="MERGE",
                  row_count=5)  # fmt: skip
    lost = make_conflict(table, read_version=9, winning_version=10, winner_operation="MERGE")
    met = overlaps_of(table)
    [merge] = overlap_rows(table, list(met.iter_pair("MERGE", "MERGE")))
    assert (merge.verdict, merge.version, merge.winning_version) == ("resolved", 10, 8)
    [append] = overlap_rows(table, list(met.iter_pair("MERGE", "INSERT")))
    assert (append.verdict, append.winner_operation) == ("passes", "STREAMING UPDATE")
    [loser] = overlap_rows(table, list(met.iter_pair("UPDATE", "MERGE")))
    assert (loser.verdict, loser.version, loser.conflict_id) == ("conflict", None, lost.pk)


def test_a_recorded_conflict_is_a_overlap_even_where_no_commit_of_it_is_mirrored(table):
    make_conflict(table, winning_version=99, read_version=98, winner_operation="DELETE")
    cells = table_matrix(
        table, build_setting(table), overlaps_of(table), list_observed_pairs(table)
    )
    [cell] = [pair for pair in cells if (pair.current, pair.winner) == ("UPDATE", "DELETE")]
    assert (cell.overlap_count, cell.aborted, cell.verdict) == (1, 1, "same row")


@pytest.mark.parametrize(("tracking", "verdict"), [(True, "never"), (False, "same file set")])
def test_the_matrix_of_a_clustered_table_requires_row_tracking(tracking, verdict):
    table = make_table(partition_columns=[], clustering_columns=["a"], deletion_vectors=True)
    unclustered = propose_setting(table, Proposal(clustering=()))
    table.row_tracking = tracking
    cells = table_matrix(table, unclustered, overlaps_of(table), ())
    [cell] = [pair for pair in cells if (pair.current, pair.winner) == ("DELETE", "OPTIMIZE")]
    assert (cell.verdict, cell.preview) == (verdict, None if tracking else "never")


def test_a_merge_may_have_passed_an_append_over_that_it_did_not_see(table):
    [order] = find_out_of_order(table, overlaps_of(table)).versions
    assert (order.version, order.appends, order.is_known) == (10, (7,), False)
    [row] = rows_of_versions(table, [order])
    assert ([append.operation for append in row.appends], row.commit.operation) == (
        ["STREAMING UPDATE"],
        "MERGE",
    )
    assert row.rows_at_most == 7


def test_a_page_of_commits_knows_which_of_them_are_out_of_order(table, django_assert_num_queries):
    commits = list(table.commits.all())
    assert find_out_of_order_among(table, commits).keys() == {10}
    with django_assert_num_queries(0):
        assert find_out_of_order_among(table, [c for c in commits if c.version < 10]) == {}


def place_in_window(table):
    """Return the replayable history of `histories`, with the columns that a mirror adds."""
    table.commits.update(committed_at=timezone.now(), changes_data=True)
    table.commits.filter(version=1).update(is_blind_append=True, files_added=1, read_version=0)
    table.commits.filter(version=2).update(read_version=0)
    return table


def test_a_delete_of_another_partition_passed_nothing_over():
    near = place_in_window(replayable(small_table()))
    far = place_in_window(replayable(small_table("other"), part="b"))
    [order] = find_out_of_order(near, overlaps_of(near)).versions
    assert (order.version, order.appends, order.is_known) == (2, (1,), True)
    assert find_out_of_order(far, overlaps_of(far)).versions == ()


def test_a_commit_that_is_not_kept_whole_is_said_not_to_be_examined():
    table = place_in_window(replayable(small_table()))
    table.commits.filter(version=1).update(raw_bytes=10**6)
    out_of_order = find_out_of_order(table, overlaps_of(table))
    assert (out_of_order.versions, out_of_order.unread) == ((), 1)


def test_at_serializable_nothing_was_reordered(table):
    table.commits.filter(version=10).update(isolation_level="Serializable")
    assert find_out_of_order(table, overlaps_of(table)).versions == ()


def foretold(table, properties):
    met = overlaps_of(table)
    proposal = proposal_of(table, properties)
    return effect_of(
        table, proposal, met, list_observed_pairs(table), find_out_of_order(table, met)
    )


def test_a_stricter_level_counts_writes_that_passed_an_append_over():
    table = place_in_window(replayable(small_table()))
    effect = foretold(table, {LEVEL: "Serializable"})
    assert (effect.more, effect.now, effect.then, effect.open) == ({"DELETE": 1}, 0, 1, 0)
    assert (effect.append_overlaps, effect.out_of_order) == (1, (2,))


def test_the_reads_of_a_merge_are_not_guessed(table):
    effect = foretold(table, {LEVEL: "Serializable"})
    assert (effect.added, [(kind.kind, kind.count) for kind in effect.undecided]) == (
        0,
        [("MERGE", 1)],
    )


def test_without_vectors_writes_resolved_by_rows_would_lose(table):
    make_conflict(table, kind="resolved", current_operation="MERGE", winning_version=8)
    effect = foretold(table, {VECTORS: "false"})
    assert (effect.more, effect.then) == ({"MERGE": 1}, 1)


def test_a_write_is_counted_once_however_often_it_would_lose():
    table = place_in_window(replayable(small_table(row_level_eligible=True, deletion_vectors=True)))
    Table.objects.update(
        partition_columns=[], properties={VECTORS: "true"},
        reader_features=["deletionVectors"], writer_features=["deletionVectors"],
    )  # fmt: skip
    table.refresh_from_db()
    job = make_job(table, "delete", committed_version=2)
    for winner in (0, 1):
        make_conflict(
            table, job=job, kind="resolved", current_operation="DELETE", winning_version=winner
        )
    effect = foretold(table, {LEVEL: "Serializable", VECTORS: "false"})
    assert (effect.more, effect.open) == ({"DELETE": 1}, 0)


def test_the_present_setting_is_no_change(table):
    assert not proposal_of(table, {LEVEL: "WriteSerializable", VECTORS: "true"}, ("order_date", "customer_id"))  # fmt: skip
    assert foretold(table, {}) is None


def test_the_job_to_commit_is_shown_line_by_line():
    table = make_table(
        min_reader_version=1, min_writer_version=2, reader_features=[], writer_features=[],
        deletion_vectors=False, properties={VECTORS: "false"}, clustering_columns=[],
    )  # fmt: skip
    protocol, properties, domain = preview_commits(
        table, proposal_of(table, {VECTORS: "true"}, ("order_date",))
    )
    lines = [f"{line.sign} {line.text}" for line in protocol.lines]
    assert "- minReaderVersion = 1" in lines
    assert "+ readerFeatures: deletionVectors" in lines
    assert "+ writerFeatures: clustering" in lines
    assert [f"{line.sign} {line.text}" for line in properties.lines] == [
        f"- {VECTORS} = false",
        f"+ {VECTORS} = true",
    ]
    assert [line.text for line in domain.lines] == ["clusteringColumns = order_date"]


def test_two_commits_are_one_script():
    kind, parameters = Proposal({LEVEL: "Serializable"}, ("a",)).job
    assert (kind, [step["kind"] for step in parameters["steps"]]) == (
        "script",
        ["set_properties", "alter_cluster_by"],
    )
    assert build_setting(make_table()).level == IsolationLevel.WRITE_SERIALIZABLE


def test_a_relaxed_level_spares_writes_that_lost_to_blind_appends(table):
    Table.objects.update(isolation_level="Serializable")
    table.refresh_from_db()
    for blind in (True, False, None):
        facts = {"winner": {"is_blind_append": blind}} if blind is not None else {}
        make_conflict(table, rule="data_added", isolation_level="Serializable", facts=facts)
    effect = foretold(table, {LEVEL: "WriteSerializable"})
    assert (effect.fewer, effect.then, [kind.count for kind in effect.undecided]) == (1, 2, [1])


def test_with_vectors_losses_by_files_are_undecided():
    table = make_table(
        deletion_vectors=False, row_level_eligible=False, properties={}, clustering_columns=[],
        reader_features=[], writer_features=[], min_reader_version=1, min_writer_version=2,
    )  # fmt: skip
    make_conflict(table, rule="read_file_removed")
    make_conflict(table, rule="metadata_changed")
    effect = foretold(table, {VECTORS: "true"})
    assert [(kind.kind, kind.count) for kind in effect.undecided] == [("UPDATE", 1)]


def test_a_change_of_clustering_can_be_reverted(table):
    make_commit(
        table, 13, "CLUSTER BY", files_added=0, committed_at=timezone.now(),
        operation_parameters={"oldClusteringColumns": "status", "newClusteringColumns": "order_date,customer_id"},
    )  # fmt: skip
    [change] = settings_history(table, overlaps_of(table), 8)
    assert (change.changes[0].old, change.is_in_force) == ("status", True)
    [command] = change.revert
    assert (command.kind, command.parameters) == ("alter_cluster_by", {"columns": ["status"]})


def test_a_real_log_is_counted_from_the_records_of_its_writers(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    log = DeltaTable.create(str(tmp_path / "t"), StructType((StructField("id", INTEGER),)))
    files = [
        AddFile(path=path, partition_values={}, size=10, modification_time=1, data_change=True,
                stats='{"numRecords":5,"minValues":{"id":1},"maxValues":{"id":9}}')
        for path in ("first", "second", "third")
    ]  # fmt: skip
    append = log.start_transaction()
    stage(append, files[0])
    append.commit(operation="WRITE", parameters={"mode": "Append"})
    delete, blind = (DeltaTable.open(log.uri).start_transaction() for _ in range(2))
    delete.read_where("id = 5")
    stage(blind, files[1])
    blind.commit(operation="WRITE", parameters={"mode": "Append"})
    gone = RemoveFile(path="first", deletion_timestamp=1, data_change=True, partition_values={})
    stage(delete, gone, files[2])
    delete.commit(operation="DELETE", parameters={"predicate": '["id = 5"]'})
    met = overlaps_of(mirrored := register_table(log.uri, "a.t"))
    assert met.counts == {("DELETE", "INSERT"): 1}
    [order] = find_out_of_order(mirrored, met).versions
    assert (order.version, order.appends, order.is_known) == (3, (2,), True)
