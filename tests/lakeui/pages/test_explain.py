"""The page of pasted errors: the text with its facts marked, the verdict, remedies, saving."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.conflicts.models import Conflict
from lakeui.pages.conflicts.explain import SAMPLES
from tests.lakeui.factories import make_conflict, make_job

PATH = "/conflicts/explain/"
TEXT = (
    "26/11/20 02:25:03 ERROR MicroBatchExecution: Query items-upsert [id = 1, runId = 2] terminated\n"
    "io.delta.exceptions.ConcurrentAppendException: Files were added to partition "
    "[order_date=2026-11-19] by a concurrent update. Please try the operation again.\n"
    'Conflicting commit: {{"timestamp":1795141491000,"operation":"MERGE","readVersion":1,'
    '"isolationLevel":"WriteSerializable","isBlindAppend":false,"txnId":"{txn}"}}'
)


@pytest.fixture
def text(lake):
    """Return an error that version 2 of the small lake caused, with the mirror's facts."""
    commit = lake.table.commits.get(version=2)
    metrics = {"numTargetRowsInserted": "18204"}
    lake.table.commits.filter(version=2).update(operation_metrics=metrics, files_added=14)
    return TEXT.format(txn=commit.txn_id)


def post_text(client, text, **more):
    return client.post(PATH, {"text": text, **more}).content.decode()


def test_facts_are_marked_in_the_text_and_listed_under_the_same_numbers(client_for, text):
    body = post_text(client_for("viewer"), text)
    marked = re.findall(r"<mark>(.*?)</mark><sup\s*>(\d+)</sup>", body)
    assert marked[0] == ("ConcurrentAppendException", "1")
    assert ("order_date=2026-11-19", "2") in marked
    listed = body[body.index('<ol class="found">') :]
    labels = re.findall(r"<li><b>(.*?)</b>", listed)
    assert labels[:3] == ["Exception", "Partition", "Winning commit&#x27;s time"]
    assert len(marked) == len(labels)
    assert "not in the message" in listed
    assert "operation, read version, condition" in listed


def test_the_verdict_describes_the_winner_found_by_its_transaction(client_for, lake, text):
    body = post_text(client_for("viewer"), text)
    assert "New data that a write should have read" in body
    assert f'href="/tables/{lake.table.pk}/history/2/">v2</a>' in body
    assert "found by its transaction id" in body
    assert "added 14 files to" in body
    assert "would have missed 18,204 new rows" in body
    assert "Check 5 of 7" in body
    assert "not a blind append" in body
    assert "The stream resumes from its checkpoint" in body


def test_the_partition_of_the_message_is_in_the_remedy(client_for, text):
    assert "<code>order_date = &#x27;2026-11-19&#x27;</code>" in post_text(
        client_for("viewer"), text
    )


def test_pairs_that_rows_would_have_decided_are_counted(client_for, lake, text):
    lake.table.partition_columns, lake.table.clustering_columns = ["order_date"], []
    lake.table.row_level_eligible = False
    lake.table.row_level_reason = "the table is partitioned by order_date"
    lake.table.save()
    Conflict.objects.all().delete()
    common = {"winner_operation": "MERGE", "row_count": None, "subclass": "", "rule": "data_added"}
    make_conflict(lake.table, **common, occurred_at=timezone.now() - timedelta(days=3))
    job = make_job(lake.table, "optimize")
    make_conflict(lake.table, **common, current_operation="OPTIMIZE", job=job)
    body = post_text(client_for("viewer"), text)
    assert "30 days: 1 of 2 aborted writes of this pair would have passed; 1 " in body
    assert "This pair was aborted once here in 24 h" in body
    assert "partition, not rows: the table is partitioned by order_date" in body


def test_the_latest_loss_of_the_lake_is_a_sample_with_its_winner_found(client_for, lake):
    body = client_for("viewer").get(PATH, {"sample": "here"}).content.decode()
    assert "Files that a write had read were removed" in body
    assert "found by its transaction id" in body
    Conflict.objects.all().delete()
    assert (
        "No write was aborted here yet"
        in client_for("viewer").get(PATH, {"sample": "here"}).content.decode()
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda message: message.key)
def test_each_sample_is_explained_by_its_link(client_for, lake, sample):
    body = client_for("viewer").get(PATH, {"sample": sample.key}).content.decode()
    assert "Recognized facts" in body
    assert "<mark>" in body


def test_a_report_is_stored_with_its_reporters_additions(client_for, lake, text):
    answer = client_for("operator").post(
        PATH, {"text": text, "step": "record", "read_version": "v1", "operation": "merge"}
    )
    kept = Conflict.objects.get(kind="reported")
    assert answer["Location"] == f"/conflicts/{kept.pk}/"
    assert (kept.read_version, kept.current_operation, kept.rule) == (1, "MERGE", "data_added")
    assert (kept.table, kept.winning_version) == (lake.table, 2)


def test_an_invalid_read_version_is_left_out(client_for, text):
    client_for("operator").post(PATH, {"text": text, "step": "record", "read_version": "one"})
    assert Conflict.objects.get(kind="reported").read_version is None


def test_a_viewer_may_explain_and_not_keep(client_for, lake, text):
    client = client_for("viewer")
    assert "Record conflict" not in post_text(client, text)
    client.post(PATH, {"text": text, "step": "record"})
    assert not Conflict.objects.filter(kind="reported").exists()


def test_a_stranger_learns_nothing_of_the_table(client_for, lake, text):
    body = post_text(client_for("stranger"), text)
    assert "not in the mirror" in body
    assert lake.table.name not in body


@pytest.mark.parametrize(
    ("pasted", "status", "words"),
    [
        ("", 400, "The text is empty"),
        ("nothing of the kind", 200, "No conflict of a Delta writer was recognized"),
        (
            "java.io.FileNotFoundException: x",
            200,
            "A Java exception, java.io.FileNotFoundException",
        ),
    ],
)
def test_text_without_a_conflict_is_answered_as_such(client_for, lake, pasted, status, words):
    response = client_for("viewer").post(PATH, {"text": pasted})
    assert response.status_code == status
    assert words in response.content.decode()


def test_pasted_text_is_never_markup(client_for, lake):
    body = post_text(
        client_for("viewer"), "<b onload=x>ConcurrentAppendException</b><script>1</script>"
    )
    assert "<script>1" not in body
    assert "<b onload" not in body


def test_a_megabyte_around_the_message_is_shortened(client_for, text):
    body = post_text(client_for("viewer"), "x " * 200_000 + text + " y" * 200_000)
    shown = body[body.index("<pre") : body.index("</pre>")]
    assert "<mark>ConcurrentAppendException</mark>" in shown
    assert len(shown) < 8_000
