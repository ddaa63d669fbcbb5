"""Trials of an aborted job's fixes on a copy: a worker's results, and its messages on failure."""

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone

from engine.commands.sql import parse_statement
from engine.conflict_facts import RemedyKind
from engine.errors import ExpressionError, RequestError
from engine.storage.local import LocalStore
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Table
from lakeui.conflicts.conflict_detail.trials import ask_for_trials, trials_view
from lakeui.conflicts.costs import keep
from lakeui.conflicts.models import Conflict, ConflictTrials
from lakeui.jobs.models import Job
from tests.lakeui.conflicts.aborted_jobs import create_aborted_job
from tests.lakeui.people import person as make_person
from workers import conflicts
from workers.conflicts import try_fixes

pytestmark = pytest.mark.django_db
APART = "UPDATE t SET n = 7 WHERE id >= 2 AND id < 5"


@pytest.fixture
def person(db) -> User:
    return make_person("ana", "admin")


@pytest.fixture
def reader(person) -> Reader:
    return Reader(person)


def _try_fixes(conflict: Conflict, reader: Reader, condition: str = "") -> ConflictTrials:
    trials = ask_for_trials(conflict, reader, condition)
    try_fixes(trials.pk)
    trials.refresh_from_db()
    return trials


def test_every_fix_is_tried_and_the_original_write_conflicts_again(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    trials = _try_fixes(conflict, reader, "id >= 10")
    verdicts = {fix: answer["verdict"] for fix, answer in trials.answers.items()}
    assert (trials.error_code, verdicts) == (
        "",
        {
            "as_it_was": "conflict",
            "retry": "passes",
            "deletion_vectors": "conflict",  # both touch row 6
            "serializable": "conflict",
            "condition": "passes",
        },
    )
    view = trials_view(conflict, reader)
    assert (view.is_reproduced, view.waits) == (True, False)
    later = view.answer_of(RemedyKind.APART_IN_TIME)
    assert (later.would_have_landed, later.rows) == (True, 14)
    assert (view.of_condition.would_have_landed, view.of_condition.rows) == (True, 10)


def test_deletion_vectors_help_only_where_the_rows_are_others(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person, APART)
    _try_fixes(conflict, reader)
    answer = trials_view(conflict, reader).answer_of(RemedyKind.DELETION_VECTORS)
    assert answer.would_have_landed is True


def test_a_transaction_is_tried_as_a_whole(lake, broker, person, reader):
    text = "; ".join(("BEGIN ATOMIC " + APART, "DELETE FROM t WHERE n = 7 AND id = 3", "END"))
    conflict = create_aborted_job(str(lake / "lake/orders"), person, text)
    trials = _try_fixes(conflict, reader)
    verdicts = {fix: trials.answers[fix]["verdict"] for fix in ("as_it_was", "deletion_vectors")}
    assert verdicts == {"as_it_was": "conflict", "deletion_vectors": "resolved"}


def test_a_repeated_question_takes_nobodys_place(lake, broker, person, reader, monkeypatch):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    trials = ask_for_trials(conflict, reader, "id >= 10")
    real = conflicts.try_write

    def ask_anew(*given, **named):
        ask_for_trials(conflict, reader, "id >= 11")
        return real(*given, **named)

    monkeypatch.setattr(conflicts, "try_write", ask_anew)
    try_fixes(trials.pk)
    trials.refresh_from_db()
    assert (trials.condition, trials.answers, trials.read_at) == ("id >= 11", {}, None)
    monkeypatch.undo()
    try_fixes(trials.pk)
    trials.refresh_from_db()
    assert (trials.condition, trials.answers["condition"]["rows"]) == ("id >= 11", 9)


def test_a_fix_that_cannot_help_is_marked(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    _try_fixes(conflict, reader)
    answer = trials_view(conflict, reader).answer_of(RemedyKind.DELETION_VECTORS)
    assert (answer.would_have_landed, answer.winning_version) == (False, 2)


def test_missing_files_are_reported_for_every_fix(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    LocalStore(conflict.table.uri).delete("a.parquet")
    trials = _try_fixes(conflict, reader)
    assert {answer["verdict"] for answer in trials.answers.values()} == {"undecidable"}
    assert "no longer exist" in trials.answers["retry"]["why"]


def test_a_copy_that_does_not_conflict_again_proves_nothing(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    Job.objects.filter(pk=conflict.job_id).update(
        parameters=parse_statement("UPDATE t SET n = 7 WHERE id >= 10").parameters()
    )
    trials = _try_fixes(Conflict.objects.get(pk=conflict.pk), reader)
    assert trials.answers["as_it_was"]["verdict"] == "passes"
    assert trials.answers["retry"]["verdict"] == "undecidable"
    assert not trials_view(conflict, reader).is_reproduced


def test_a_missing_table_is_an_error_that_the_page_shows(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    Table.objects.update(uri="/elsewhere/orders")
    trials = _try_fixes(Conflict.objects.get(pk=conflict.pk), reader)
    assert trials.error_code
    assert trials.answers == {}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"table": None}, "not registered"),
        ({"job": None}, "ran in an external program"),
        ({"winning_version": None}, "is not recorded"),
        ({"kind": "resolved"}, "nothing to try"),
    ],
)
def test_a_write_that_cannot_be_tried_gives_the_reason_and_asks_no_worker(
    lake, person, reader, changed, why
):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    Conflict.objects.filter(pk=conflict.pk).update(**changed)
    conflict = Conflict.objects.get(pk=conflict.pk)
    assert why in trials_view(conflict, reader).obstacle
    with pytest.raises(RequestError, match=why):
        ask_for_trials(conflict, reader)
    assert not ConflictTrials.objects.exists()


def test_a_condition_that_does_not_parse_is_not_sent_to_a_worker(lake, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person)
    with pytest.raises(ExpressionError):
        ask_for_trials(conflict, reader, "id >=")
    with pytest.raises(RequestError, match="characters"):
        ask_for_trials(conflict, reader, "id = 1 OR " * 1000)
    assert not ConflictTrials.objects.exists()


def test_a_foreign_delete_is_tried_by_its_log_entry(lake, broker, person, reader):
    conflict = create_aborted_job(str(lake / "lake/orders"), person, APART)
    Job.objects.filter(committed_version=2).delete()
    trials = _try_fixes(conflict, reader)
    assert "statement is not recorded" in trials.answers["deletion_vectors"]["why"]
    conflict.table.commits.create(version=2, operation="DELETE", predicate="id = 6")
    trials = _try_fixes(conflict, reader)
    assert trials.answers["deletion_vectors"]["verdict"] in ("passes", "resolved")


def test_an_unrecorded_conflict_of_nobody_has_no_trials(db):
    conflict = keep(table=None, kind="aborted", occurred_at=timezone.now())
    assert trials_view(conflict, Reader(AnonymousUser())).obstacle
