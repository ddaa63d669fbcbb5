"""The page of a conflict: events, cause, remedy, evidence; and gaps in the record."""

import re
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
from django.utils import timezone

from engine.conflict_facts import (
    ConflictFacts,
    ConflictFile,
    ConflictSide,
    Decision,
    Rule,
    SharedFile,
    SideChanges,
    SideFile,
    SideReads,
    Subclass,
    Verdict,
    WinnerVerdicts,
)
from engine.conflicts.decide.checker import CHECKS, find_conflict
from engine.conflicts.decide.decision import decision_of, stop_at_rule
from engine.errors import ConcurrentDeleteReadException
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Table
from lakeui.conflicts.conflict_detail.sides import both_sides
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.conflicts.recording import AttemptOrigin, record_aborted
from lakeui.conflicts.reports.links import explain_report, record_report
from lakeui.pages.charts.overlap import draw_overlap
from lakeui.pages.conflicts.conflict import set_words
from tests.engine.conflicts.test_checks import ROWS
from tests.lakeui.factories import make_conflict, make_job
from tests.lakeui.story_decision import FILE, MET, story_decision, story_rows

SAID = {
    "the arithmetic of the first overlap": (
        "4,118",
        "<dd>212</dd>",
        "deleted before either",
        "1,006<",
        "both</dt><dd>3 rows",
    ),
    "what either side changed": ("812,406 rows in 46 files, as deletion vectors",),
    "what this write read": ("1 condition, deterministic, no subquery: at row level",),
    "each check against each winner": ("row map", "exempt", "no new rows", "not reached"),
    "what resolution took": ("812 ms", "of its 10 s", "2 files were opened"),
    "the other shared file": ("612 and 88 rows with none in common",),
    "where it stands in the swim-lane": ("?pick=c-",),
    "its versions as links": ('<a class="ver"',),
}


@pytest.fixture
def conflict_with_decision(lake):
    """Return the small lake's conflict with its decision."""
    lake.conflict.facts |= {"decision": asdict(story_decision())}
    lake.conflict.save()
    return lake.conflict


def _page(client, conflict) -> str:
    return client.get(f"/conflicts/{conflict.pk}/").content.decode()


@pytest.mark.parametrize("claim", SAID)
def test_the_page_tells(client_for, conflict_with_decision, claim):
    body = _page(client_for("viewer"), conflict_with_decision)
    for text in SAID[claim]:
        assert text in body


def test_rows_of_one_file_are_distinguished_from_the_rows_of_all(
    client_for, conflict_with_decision
):
    assert "both, in all files" not in _page(client_for("viewer"), conflict_with_decision)
    conflict_with_decision.row_count = 88
    conflict_with_decision.save()
    body = _page(client_for("viewer"), conflict_with_decision)
    assert "Two writes of the same 88 rows" in body
    assert re.search(
        r"both</dt><dd>3 rows</dd>.*both, in all files</dt><dd>88 rows</dd>", body, re.S
    )


def test_facts_that_were_not_recorded_are_named_as_such(client_for, lake):
    body = _page(client_for("viewer"), lake.conflict)
    assert "The results for the winning commits before it are not recorded" in body
    assert "4,118" not in body


def test_rows_are_read_on_request_and_shown_with_each_sides_change(
    client_for, conflict_with_decision
):
    assert "Read the rows" in _page(client_for("viewer"), conflict_with_decision)
    conflict_with_decision.job.kind, conflict_with_decision.job.parameters = (
        "update",
        {"assignments": {"discount": "0.15"}},
    )
    conflict_with_decision.job.save()
    now = timezone.now()
    ConflictRows.objects.create(
        conflict=conflict_with_decision, asked_at=now, read_at=now, **story_rows()
    )
    body = _page(client_for("viewer"), conflict_with_decision)
    assert "discount 0.10 → 0.15" in body
    assert "deleted, customer_id = 81204" in body
    assert "1,007,318" in body


def test_every_row_that_both_sides_touched_is_counted(client_for, lake):
    file = ConflictFile("a.parquet", rows=tuple(range(100)), row_count=943)
    side = ConflictSide("UPDATE", read_version=1)
    facts = ConflictFacts(
        *("sales.orders", 1, 2, Rule.READ_FILE_REMOVED, Subclass.ROW_LEVEL_CHANGES),
        *(side, replace(side, operation="DELETE", version=2)),
        files=(file,), file_count=1, row_count=943, row_level="both writes concern the same rows",
    )  # fmt: skip
    error = ConcurrentDeleteReadException(facts)
    lost = record_aborted(error, table=lake.table, origin=AttemptOrigin(attempt=1))
    assert "Two writes of the same 943 rows" in _page(client_for("viewer"), lost)
    (listed, *_) = client_for("viewer").get("/api/v1/conflicts/").json()["items"]
    assert int(listed["row_count"]) == 943
    assert "at row level:" in client_for("viewer").get("/conflicts/").content.decode()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "A worker is reading"),
        ({"error_code": "X", "error_message": "Gone.", "read_at": timezone.now()}, "Gone."),
        ({"read_at": timezone.now()}, "No such rows"),
    ],
)
def test_every_state_of_reading_rows_is_shown(client_for, conflict_with_decision, fields, said):
    ConflictRows.objects.create(conflict=conflict_with_decision, asked_at=timezone.now(), **fields)
    assert said in _page(client_for("viewer"), conflict_with_decision)


def test_the_fragment_stops_asking_once_the_rows_are_there(client_for, conflict_with_decision):
    rows = ConflictRows.objects.create(conflict=conflict_with_decision, asked_at=timezone.now())
    client, address = client_for("viewer"), f"/conflicts/{conflict_with_decision.pk}/"
    assert client.get(address, headers={"HX-Request": "true"}).status_code == 200
    rows.read_at = timezone.now()
    rows.save()
    answer = client.get(address, headers={"HX-Request": "true"})
    assert answer.status_code == 286
    assert "<html" not in answer.content.decode()


def test_an_aborted_write_that_was_run_again_shows_its_version(client_for, lake):
    address, lost = f"/api/v1/conflicts/{lake.conflict.pk}/", lake.conflict.job
    assert client_for("viewer").get(address).json()["landed"] is None
    again = make_job(lake.table, "optimize", state="conflicted", retry_of=lost)
    last = make_job(
        lake.table, "optimize", state="succeeded", retry_of=again, committed_version=14,
        finished_at=timezone.now(),
    )  # fmt: skip
    body = _page(client_for("viewer"), lake.conflict)
    assert "run again as v14" in body
    assert "Run again…" not in body
    assert f"/jobs/{last.pk}/" in body
    expected = {"version": 14, "job_id": str(last.pk), "is_same_job": False}
    assert client_for("viewer").get(address).json()["landed"] == expected


def test_a_stranger_learns_nothing_of_it(client_for, conflict_with_decision):
    assert client_for("stranger").get(f"/conflicts/{conflict_with_decision.pk}/").status_code == 404
    assert (
        client_for("stranger").post(f"/conflicts/{conflict_with_decision.pk}/rows/").status_code
        == 404
    )


def test_the_twin_has_the_contents_of_the_page(client_for, conflict_with_decision):
    body = client_for("viewer").get(f"/api/v1/conflicts/{conflict_with_decision.pk}/").json()
    assert body["facts"]["decision"]["shared_files"][0]["common_rows"] == list(MET)
    assert body["current"]["changes"]["rows_changed"] == "812406"
    assert body["advice"][0]["kind"] == "retry"
    assert body["similar"][0]["id"] == conflict_with_decision.pk


def test_a_resolved_conflict_is_drawn_with_joints(client_for, lake):
    decision = story_decision()
    passed = tuple(
        replace(shared_file, common_count=0, common_rows=())
        for shared_file in decision.shared_files
    )
    facts = {"decision": asdict(replace(decision, shared_files=passed)), "files": [FILE]}
    resolved = make_conflict(
        lake.table, kind=Conflict.Kind.RESOLVED, winning_version=3, row_count=212, facts=facts
    )
    body = _page(client_for("viewer"), resolved)
    assert "both committed" in body
    assert "both</dt><dd>0 rows" in body
    chart = draw_overlap(replace(decision, shared_files=passed), ())
    assert chart is not None
    assert [joint.is_conflict for joint in chart.files.joints] == [False, False]


def _decision(**fields) -> Decision:
    sides = {"current_changes": SideChanges(), "winner_changes": SideChanges()} | fields
    return Decision(SideReads(), **sides)


def test_files_are_in_the_order_of_their_bounds_and_the_rest_by_path():
    ours = (SideFile("z", "changed", "9", "9"), SideFile("y", "changed", "10", "12"))
    theirs = (SideFile("b", "changed"), SideFile("a", "changed"))
    chart = draw_overlap(_decision(current_files=ours, winner_files=theirs), ())
    assert chart is not None
    assert [line.path for line in chart.lines] == ["z", "y", "a", "b"]
    assert (chart.files.first, chart.files.last, chart.rows) == ("9", "12", None)


def test_files_with_dates_are_placed_at_their_dates():
    days = [SideFile(d, "changed", d, d) for d in ("2026-01-01", "2026-01-02", "2026-01-11")]
    chart = draw_overlap(_decision(current_files=tuple(days)), ())
    assert chart is not None
    first, second, last = (tick.x for tick in chart.files.above)
    assert (last - first) == pytest.approx(10 * (second - first))


def test_rows_that_both_touch_are_crossed_where_they_lie():
    shared = SharedFile("f", "changed", 2, 2, 1, 1, 100, (10, 50), (50, 90), (70,), (50,))
    files = (SideFile("f", "changed"),)
    chart = draw_overlap(
        _decision(shared_files=(shared,), current_files=files, winner_files=files), ()
    )
    assert chart is not None
    assert chart.rows is not None
    assert [tick.x for tick in chart.rows.above] == [10.5, 50.5]
    assert [(joint.x, joint.is_conflict) for joint in chart.rows.joints] == [(50.5, True)]
    assert chart.rows.base == (70.5,)
    assert draw_overlap(_decision(), ()) is None


def test_a_reported_conflict_shows_the_facts_of_its_message(client_for, lake):
    text = (
        "io.delta.exceptions.ConcurrentAppendException: Files were added to partition "
        "[day=2026-11-19] by a concurrent update. Please try the operation again.\nConflicting "
        'commit: {"timestamp":1790000000000,"operation":"WRITE","operationParameters":'
        '{"mode":Append},"readVersion":2,"isolationLevel":"Serializable","isBlindAppend":true}'
    )
    linked = explain_report(text, Table.objects.all(), lake.table)
    recorded = record_report(linked, None)
    assert recorded is not None
    body = _page(client_for("viewer"), recorded)
    assert "ConcurrentAppendException" in body
    assert "not a job of this installation" in body
    assert (
        client_for("viewer").get(f"/api/v1/conflicts/{recorded.pk}/").json()["current"]["job"]
        is None
    )


@pytest.mark.parametrize("rule", [check.rule for check in CHECKS])
def test_a_loss_by_every_rule_is_recorded_and_has_a_page(client_for, people, lake, rule):
    row = next(row for row in ROWS if row.check == rule and row.conflicts)
    conflict = find_conflict(row.overlap)
    assert conflict is not None
    trail = (stop_at_rule(row.overlap, rule),)
    decision = decision_of(row.overlap, conflict.conflict, trail, {})
    told = type(conflict)(replace(conflict.conflict, decision=decision))
    recorded = record_aborted(
        told, table=lake.table, origin=AttemptOrigin(job_id=lake.job.pk, attempt=1)
    )
    recorded.refresh_from_db()
    assert both_sides(recorded, Reader(people["viewer"])).decision == decision
    body = _page(client_for("viewer"), recorded)
    number = [check.rule for check in CHECKS].index(rule) + 1
    assert f"Check {number} of 7" in body
    assert body.count('class="hit"') == 1


def test_a_passed_file_is_named_only_where_its_label_stands_apart():
    near, far = ("2026-01-01", "2026-01-02"), ("2026-01-01", "2026-06-01")
    for days, said in ((near, ["part-00001"]), (far, ["part-00001", "part-00002, passed"])):
        files = tuple(
            SideFile(f"part-0000{n}-x", "changed", day, day)
            for n, day in enumerate((*days, "2026-12-01"), 1)
        )
        passed = SharedFile(files[1].path, "changed", 1, 1, 0, 0, 9)
        chart = draw_overlap(
            _decision(current_files=files, winner_files=files[:2], shared_files=(passed,)),
            [files[0].path],
        )
        assert chart is not None
        assert [label.text for label in chart.files.labels] == said


def test_a_shared_file_that_no_check_reached_is_not_said_to_have_passed():
    """Two writes of one partition touch the same files, because each rewrites what the other does."""
    rewritten = tuple(SideFile(f"part-00000-1{n}", "changed", "DE", "DE") for n in range(2))
    added = tuple(SideFile(f"part-00000-2{n}", "added", "DE", "DE") for n in range(2))
    ours = tuple(replace(file, did="matched") for file in added)
    decision = _decision(
        current_files=(*rewritten, *ours), winner_files=(*rewritten, *added),
        current_changes=SideChanges(files_changed=2), winner_changes=SideChanges(2, files_added=2),
    )  # fmt: skip
    chart = draw_overlap(decision, [file.path for file in added])
    told = {(joint.is_conflict, joint.is_open) for joint in chart.files.joints}
    assert told == {(True, False), (False, True)}
    assert (chart.has_open, chart.has_passed) == (True, False)
    assert (chart.here_count, chart.there_count, chart.shared_count) == (4, 4, 4)
    assert not any("passed" in label.text for label in chart.files.labels)
    both_landed = draw_overlap(decision, (), is_resolved=True)
    assert (both_landed.has_open, both_landed.has_passed) == (False, True)


def test_names_of_files_under_a_strip_do_not_lie_on_each_other():
    """Files of one write have names with the same beginning, so several share a long label."""
    ours = tuple(SideFile(f"part-00000-109c{n}", "changed", "DE", "DE") for n in range(4))
    theirs = tuple(SideFile(f"part-00000-156c{n}", "changed", "DE", "DE") for n in range(4))
    passed = tuple(SharedFile(file.path, "changed", 1, 1, 0, 0, 9) for file in ours)
    decision = _decision(
        current_files=(*ours, *theirs), winner_files=(*ours, *theirs), shared_files=passed
    )
    chart = draw_overlap(decision, [file.path for file in theirs])
    drawn = [label for label in chart.files.labels if label.anchor == "middle"]
    spans = sorted(label.span(640) for label in drawn if label.spare != "spare-wide")
    assert spans
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert drawn[0].text == "2 of part-00000-156c"


def test_labels_of_rows_that_would_lie_on_each_other_are_hidden_in_narrow_windows():
    rows = (100, 1_200, 4_000, 4_100, 9_000, 9_900)
    shared = SharedFile("a", "changed", 6, 6, 0, 6, 10_000, rows, rows, (), rows)
    files = (SideFile("a", "changed"),)
    chart = draw_overlap(
        _decision(shared_files=(shared,), current_files=files, winner_files=files), ()
    )
    labels = chart.rows.labels
    assert len(labels) > 2
    for width, shown in ((270, {""}), (640, {"", "spare"})):
        spans = [label.span(width) for label in labels if label.spare in shown]
        assert spans
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(start >= 0 and end <= 100 for start, end in spans)


@pytest.mark.parametrize(
    ("rule", "how", "cell", "said"),
    [
        (Rule.READ_FILE_REMOVED, "rows that both delete are counted once, rows read", "shared rows left out", "1 file"),
        (Rule.READ_FILE_REMOVED, "deletion vectors merged", "other rows", "1 file"),
        (Rule.PROTOCOL_CHANGED, "it only enabled v2Checkpoint, which does not affect running writes",
         "features enabled", "No file is in both, because v2 changed only the table's definition."),
    ],
)  # fmt: skip
def test_a_resolved_conflict_says_by_what(client_for, lake, rule, how, cell, said):
    verdicts = dict.fromkeys(Rule, Verdict.PASSES) | {rule: Verdict.RESOLVED}
    winners = (WinnerVerdicts(2, "DELETE", verdicts, how),)
    decision = Decision(SideReads(), SideChanges(), SideChanges(), winners)
    conflict = make_conflict(
        lake.table, kind="resolved", rule=rule, exception="", subclass="", winning_version=2,
        file_count=int(rule is Rule.READ_FILE_REMOVED),
        facts={"how": how, "decision": asdict(decision)},
    )  # fmt: skip
    body = _page(client_for("viewer"), conflict)
    assert how in body
    assert cell in body
    assert said in " ".join(set_words(conflict, decision))
    assert "Rows were not compared" not in body
    assert "0 files and went through" not in body
