"""An aborted job on the page of its conflict: fixes are tried, the job is rerun, and costs are in words."""

from dataclasses import asdict, replace

import pytest
from django.urls import reverse
from django.utils import timezone

from engine.conflict_facts import SideChanges, SideReads
from engine.errors import RequestError
from lakeui.catalog.models import Preview
from lakeui.catalog.roles import Role
from lakeui.conflicts.conflict_detail.rerun import rerun_conflict
from lakeui.conflicts.conflict_detail.sides import decision_of
from lakeui.conflicts.models import Conflict, ConflictRows, ConflictTrials
from lakeui.jobs.cancel_retry import retry_job
from lakeui.jobs.models import Job
from lakeui.pages.conflicts.conflict import set_words
from tests.lakeui.conflicts.aborted_jobs import create_aborted_job
from tests.lakeui.factories import grant, make_conflict, make_job, make_table, make_user
from tests.lakeui.page_client import PageClient as Client
from tests.lakeui.story_decision import story_decision

HTMX = {"HX-Request": "true"}
ANSWER = {"why": "no check finds a conflict", "winning_version": None, "rows": 14, "duration_ms": 4}


@pytest.fixture
def conflict_of_job(people, tmp_path, settings) -> Conflict:
    settings.TABLE_ROOTS = [str(tmp_path)]
    return create_aborted_job(str(tmp_path / "orders"), people["owner"])


def _page(client, conflict, query="") -> str:
    return client.get(f"/conflicts/{conflict.pk}/{query}").content.decode()


def _rerun(client, conflict, confirm="sales.orders", **fields):
    return client.post(f"/conflicts/{conflict.pk}/rerun/", {"confirm": confirm, **fields})


def _create_trials(conflict, **verdicts) -> ConflictTrials:
    now = timezone.now()
    answers = {fix: ANSWER | {"verdict": verdict} for fix, verdict in verdicts.items()}
    return ConflictTrials.objects.create(
        conflict=conflict, asked_at=now, read_at=now, answers=answers, duration_ms=80
    )


def test_a_fix_that_was_tried_says_whether_it_would_have_landed(client_for, conflict_of_job):
    _create_trials(
        conflict_of_job, as_it_was="conflict", retry="passes", deletion_vectors="conflict"
    )
    response = client_for("viewer").get(f"/conflicts/{conflict_of_job.pk}/")
    verdicts = {act.advice.kind: act.verdict for act in response.context["acts"]}
    assert (verdicts["retry"], verdicts["deletion_vectors"]) == ("passes", "aborted")
    body = response.content.decode()
    assert "Tried: it would have committed." in body
    assert "14 rows were changed on the" in body
    assert "Tried: it would still" in body
    assert "the write was aborted again" in body


def test_a_copy_that_did_not_conflict_says_that_nothing_could_be_tried(client_for, conflict_of_job):
    _create_trials(conflict_of_job, as_it_was="passes", retry="undecidable")
    assert "Nothing could be tried:" in _page(client_for("viewer"), conflict_of_job)


def test_a_write_that_needs_spark_is_marked_and_offers_no_other_trial(client_for, conflict_of_job):
    why = "MERGE needs Spark here, and trials run without Spark"
    trials = _create_trials(conflict_of_job, as_it_was="undecidable")
    client = client_for("viewer")
    assert "Try again" in _page(client, conflict_of_job)
    trials.answers["as_it_was"] |= {"why": why, "needs_spark": True}
    trials.save()
    body = _page(client, conflict_of_job)
    assert why in body
    assert "Try again" not in body
    assert 'id="id_condition"' not in body
    (answer,) = client.get(f"/api/v1/conflicts/{conflict_of_job.pk}/trials/").json()["answers"]
    assert answer["needs_spark"] is True


def test_requested_trials_wait_for_a_worker_and_a_get_requests_none(client_for, conflict_of_job):
    client = client_for("viewer")
    address = f"/conflicts/{conflict_of_job.pk}/trials/"
    assert client.get(address).status_code == 302
    assert not ConflictTrials.objects.exists()
    assert client.post(address, {"condition": "id >= 10"}).status_code == 302
    waiting = client.get(address, headers=HTMX)
    assert (waiting.status_code, b"A worker is trying" in waiting.content) == (200, True)
    ConflictTrials.objects.update(
        read_at=timezone.now(), answers={"as_it_was": ANSWER | {"verdict": "conflict"}}
    )
    assert client.get(address, headers=HTMX).status_code == 286


def test_a_condition_that_does_not_parse_is_refused_in_words(client_for, conflict_of_job):
    client = client_for("viewer")
    client.post(f"/conflicts/{conflict_of_job.pk}/trials/", {"condition": "id >="})
    assert not ConflictTrials.objects.exists()
    assert 'class="notice' in _page(client, conflict_of_job)


@pytest.mark.parametrize("path", ["trials/", "rerun/"])
def test_a_stranger_sees_neither(client_for, conflict_of_job, path):
    client = client_for("stranger")
    assert client.get(f"/conflicts/{conflict_of_job.pk}/{path}", headers=HTMX).status_code == 404
    assert client.post(f"/conflicts/{conflict_of_job.pk}/{path}").status_code == 404
    assert client.get(f"/conflicts/999999/{path}").status_code == 404


def test_a_job_runs_again_in_place_and_its_outcome_shows_there(client_for, conflict_of_job):
    client = client_for("owner")
    assert "What it would overlap" in _page(client, conflict_of_job)
    assert "Would overlap with" in _page(client, conflict_of_job, "?fix=retry")
    assert (
        _rerun(client, conflict_of_job).url
        == f"{reverse('conflict', args=[conflict_of_job.pk])}#rerun"
    )
    again = Job.objects.get(retry_of=conflict_of_job.job_id)
    assert again.parameters == conflict_of_job.job.parameters
    body = _page(client, conflict_of_job)
    assert f'sse-connect="{reverse("job-stream", args=[again.pk])}"' in body
    assert "It waits for a worker" in body
    Job.objects.filter(pk=again.pk).update(
        state=Job.State.SUCCEEDED, committed_version=3, finished_at=timezone.now()
    )
    done = client.get(f"/conflicts/{conflict_of_job.pk}/rerun/", headers=HTMX)
    assert done.status_code == 286
    assert "It has committed as" in " ".join(done.content.decode().split())
    assert "<form" not in done.content.decode()


def test_one_rule_says_of_both_pages_that_a_request_runs_again(client_for, conflict_of_job, people):
    retried = retry_job(conflict_of_job.job, people["owner"])
    Job.objects.filter(pk=retried.pk).update(state=Job.State.FAILED)
    retried.refresh_from_db()
    retry_job(retried, people["owner"])  # a rerun of the rerun
    page = client_for("owner").get(f"/conflicts/{conflict_of_job.pk}/")
    assert page.context["reruns"].obstacle == "It is running again now."
    with pytest.raises(RequestError, match="It is running again now"):
        rerun_conflict(conflict_of_job, people["owner"])
    assert Job.objects.filter(retry_of=conflict_of_job.job).count() == 1


def test_a_rerun_that_is_aborted_again_leads_to_its_conflict_and_can_be_repeated(
    client_for, conflict_of_job
):
    client = client_for("owner")
    _rerun(client, conflict_of_job)
    again = Job.objects.get(retry_of=conflict_of_job.job_id)
    Job.objects.filter(pk=again.pk).update(state=Job.State.CONFLICTED)
    lost = make_conflict(conflict_of_job.table, job=again, winning_version=9)
    body = _page(client, conflict_of_job)
    assert "It was aborted again" in body
    assert f'href="/conflicts/{lost.pk}/"' in body
    assert 'name="fix" value="retry"' in body


def test_a_write_that_can_change_rows_asks_for_the_name_as_everywhere(client_for, conflict_of_job):
    client = client_for("owner")
    assert 'id="id_rerun_confirm"' not in _page(client, conflict_of_job, "?fix=retry")
    conflict_of_job.job.parameters.pop("where")
    conflict_of_job.job.save()
    assert 'id="id_rerun_confirm"' in _page(client, conflict_of_job, "?fix=retry")
    _rerun(client, conflict_of_job, confirm="orders")
    assert not Job.objects.filter(retry_of=conflict_of_job.job_id).exists()
    _rerun(client, conflict_of_job)
    assert Job.objects.filter(retry_of=conflict_of_job.job_id).exists()


def test_a_condition_is_added_by_and(client_for, conflict_of_job):
    client = client_for("owner")
    _rerun(client, conflict_of_job, fix="condition", condition="id >= 10", reason="TICKET-7")
    again = Job.objects.get(retry_of=conflict_of_job.job_id)
    assert again.parameters["where"] == "(id >= 5) AND (id >= 10)"
    assert again.reason == "TICKET-7"


@pytest.mark.parametrize("widens", ["TRUE) OR (TRUE", "id >= 10) OR (id < 10", "TRUE -- "])
def test_a_condition_that_would_widen_the_write_is_refused(client_for, conflict_of_job, widens):
    client = client_for("owner")
    _rerun(client, conflict_of_job, fix="condition", condition=widens)
    assert not Job.objects.filter(retry_of=conflict_of_job.job_id).exists()
    body = {"fix": "condition", "condition": widens, "confirm": "sales.orders"}
    address = f"/api/v1/conflicts/{conflict_of_job.pk}/rerun/"
    assert client.post(address, body, content_type="application/json").status_code == 422
    page = client.get(
        f"/conflicts/{conflict_of_job.pk}/", {"fix": "condition", "condition": widens}
    )
    assert [way.fix for way in page.context["reruns"].ways] == ["retry", "deletion_vectors"]


def test_tables_that_a_rerun_names_are_shown_to_their_readers_only(conflict_of_job):
    hidden = make_table("secret.payroll")
    reader = make_user("reader")
    grant(reader, conflict_of_job.table, Role.VIEWER)
    with_source = {"source": {"table": hidden.name}, "on": "s.id = t.id"}
    again = make_job(
        conflict_of_job.table, "merge", state=Job.State.FAILED, parameters=with_source,
        retry_of=conflict_of_job.job, error_message="secret.payroll has no column salary",
        statement="MERGE INTO sales.orders USING secret.payroll s ON s.id = t.id",
    )  # fmt: skip
    client = Client()
    client.force_login(reader)
    body = _page(client, conflict_of_job)
    assert reverse("job", args=[again.pk]) in body
    assert "secret.payroll" not in body


def test_a_fix_of_the_table_is_marked_and_comes_first(client_for, conflict_of_job):
    client = client_for("owner")
    body = _page(client, conflict_of_job, "?fix=deletion_vectors")
    assert "This changes the table" in body
    _rerun(client, conflict_of_job, fix="deletion_vectors", confirm="")
    again = Job.objects.get(retry_of=conflict_of_job.job_id)
    kinds = [step["kind"] for step in again.parameters["steps"]]
    assert (again.kind, kinds) == ("script", ["set_properties", "update"])


@pytest.mark.parametrize("fix", ["layout", "", "narrow", "condition"])
def test_an_unknown_fix_runs_nothing_else(client_for, conflict_of_job, fix):
    _rerun(client_for("owner"), conflict_of_job, fix=fix)
    runs = Job.objects.filter(retry_of=conflict_of_job.job_id)
    assert runs.count() == (1 if not fix else 0)


def test_a_viewer_sees_the_ways_and_runs_none(client_for, conflict_of_job):
    client = client_for("viewer")
    body = _page(client, conflict_of_job, "?fix=retry")
    assert "Your role does not allow" in body
    _rerun(client, conflict_of_job)
    assert not Job.objects.filter(retry_of=conflict_of_job.job_id).exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"job": None}, "It was not a job of this installation"),
        ({"table": None}, "It was not a job of this installation"),
    ],
)
def test_a_job_that_cannot_run_again_from_here_gives_the_reason(
    client_for, conflict_of_job, changed, said
):
    Conflict.objects.filter(pk=conflict_of_job.pk).update(**changed)
    assert said in _page(client_for("owner"), conflict_of_job)
    _rerun(client_for("owner"), conflict_of_job)
    assert not Job.objects.exclude(retry_of=None).exists()


def test_a_job_that_has_not_ended_is_not_run_beside_itself(client_for, conflict_of_job):
    Job.objects.filter(pk=conflict_of_job.job_id).update(state=Job.State.RUNNING)
    assert "The job retries by itself" in _page(client_for("owner"), conflict_of_job)


def test_the_numbers_are_in_words(lake):
    conflict = lake.conflict
    conflict.facts |= {"decision": asdict(story_decision())}
    conflict.read_version = 4793
    text = "\n".join(set_words(conflict, decision_of(conflict)))
    assert "This UPDATE read 212 files of the 1,204 in v4793 by 1 condition." in text
    assert "It was going to change 46 files by deletion vectors (812,406 rows in all)" in text
    assert (
        f"this UPDATE changes 4,118 and v{conflict.winning_version} took 212; 1,006 rows had been"
        " deleted before" in text
    )
    assert "3 are in both." in text


def test_files_without_a_row_in_common_have_no_sum_of_rows(lake):
    conflict, decision = lake.conflict, story_decision()
    conflict.row_count = 340
    apart = tuple(replace(file, common_count=0) for file in decision.shared_files)
    assert "In total, both touched" in "\n".join(set_words(conflict, decision))
    text = "\n".join(set_words(conflict, replace(decision, shared_files=apart)))
    assert "none is in both." in text
    assert "In total, both touched" not in text
    many = replace(decision, shared_files=(*apart, *apart, *apart, *apart, *apart)[:4])
    assert "The table of files lists 1 more file." in "\n".join(set_words(conflict, many))


def test_huge_and_missing_numbers_read_as_sentences_too(lake):
    huge = 9_223_372_036_854_775_807
    decision = replace(
        story_decision(),
        reads=SideReads(whole_table=True),
        current_changes=SideChanges(
            files_changed=2, rows_changed=huge, files_added=1, rows_added=None
        ),
        winner_changes=SideChanges(),
        shared_files=(),
        table_files=None,
    )
    text = "\n".join(set_words(lake.conflict, decision))
    assert "read the whole table, so every change to it counts." in text
    assert "remove 2 files (9,223,372,036,854,775,807 rows in all) and add 1 file." in text
    assert "changed no file." in text
    assert set_words(lake.conflict, None) == ()


def test_rest_lists_the_ways_and_runs_one(client_for, conflict_of_job):
    client = client_for("owner")
    address = f"/api/v1/conflicts/{conflict_of_job.pk}/rerun/"
    ways = client.get(address).json()["ways"]
    assert [way["fix"] for way in ways] == ["retry", "deletion_vectors"]
    assert not any(way["asks_name"] for way in ways)
    condition = conflict_of_job.job.parameters.pop("where")
    conflict_of_job.job.save()
    refused = client.post(address, {"fix": "retry"}, content_type="application/json")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "confirm")
    conflict_of_job.job.parameters["where"] = condition
    conflict_of_job.job.save()
    named = {"fix": "retry", "confirm": "sales.orders"}
    done = client.post(address, named, content_type="application/json")
    assert (done.status_code, done.json()["kind"]) == (202, "update")
    assert client.get(address).json()["job_ids"] == [done.json()["id"]]


def test_rest_lists_the_trials(client_for, conflict_of_job):
    client = client_for("viewer")
    address = f"/api/v1/conflicts/{conflict_of_job.pk}/trials/"
    assert client.get(address).status_code == 404
    assert client.post(address, {"fix": 1}, content_type="application/json").status_code == 422
    assert client.post(address, {}, content_type="application/json").status_code == 202
    ConflictTrials.objects.all().delete()
    _create_trials(conflict_of_job, as_it_was="conflict", retry="passes")
    answers = client.get(address).json()["answers"]
    assert [(answer["fix"], answer["verdict"], answer["rows"]) for answer in answers] == [
        ("as_it_was", "conflict", "14"),
        ("retry", "passes", "14"),
    ]


def test_without_a_broker_earlier_answers_stay_and_no_page_waits(
    client_for, conflict_of_job, unreachable_broker
):
    client, address = client_for("viewer"), f"/api/v1/conflicts/{conflict_of_job.pk}/trials/"
    asked = {"condition": "id >= 10"}
    for _ in range(2):
        refused = client.post(address, asked, content_type="application/json")
        assert (refused.status_code, ConflictTrials.objects.count()) == (503, 0)
    _create_trials(conflict_of_job, as_it_was="conflict", retry="passes")
    assert client.post(address, asked, content_type="application/json").status_code == 503
    kept = client.get(address).json()
    assert (kept["state"], kept["condition"], len(kept["answers"])) == ("read", "", 2)
    page = client.post(f"/conflicts/{conflict_of_job.pk}/trials/", asked, follow=True).text
    assert "Tried: it would have committed." in page
    assert "so no worker was asked" in page


def test_without_a_broker_no_rows_are_waited_for(client_for, conflict_of_job, unreachable_broker):
    client, table = client_for("viewer"), f"/tables/{conflict_of_job.table_id}/"
    conflict_of_job.facts |= {
        "decision": {"shared_files": [{"path": "a.parquet", "common_rows": [5], "version": 1}]}
    }
    conflict_of_job.save()
    for path in ("preview/", "diff/0...1/rows/"):
        for _ in range(2):
            assert (
                client.post(f"/api/v1{table}{path}", content_type="application/json").status_code
                == 503
            )
        assert "so no worker was asked" in client.post(f"{table}{path}", follow=True).text
    for _ in range(2):
        assert (
            client.post(
                f"/api/v1/conflicts/{conflict_of_job.pk}/rows/", content_type="application/json"
            ).status_code
            == 503
        )
    assert not Preview.objects.exists()
    assert not ConflictRows.objects.exists()
