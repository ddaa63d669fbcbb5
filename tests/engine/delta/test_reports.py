"""Reports are sent in the background, survive an unreachable dashboard, and never affect the write."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import engine.delta
from engine.errors import ConflictError, RequestError
from engine.reports.dashboard import Dashboard
from engine.reports.other_engines import ConflictReports
from engine.reports.outbox import OutboxLimits, ReportOutbox, body_of, encode_events
from engine.reports.settings import SPOOL_BYTES, outbox, settings_from, stop_reports
from engine.reports.spool import Spool
from engine.reports.transactions import ReportingObserver, report_transaction
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.delta.dashboards import desk, event, files_of, outbox_to
from tests.engine.lake_writes import append
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run
from tests.stateful.history import SCHEMA

NOBODY = "http://127.0.0.1:9"  # the port of "discard", where nobody listens


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def table(tmp_path):
    properties = {"delta.enableDeletionVectors": "true"}
    made = DeltaTable.create(str(tmp_path / "orders"), SCHEMA, properties=properties)
    write(made, c.Append(1, tuple(("a", x) for x in range(6))))
    return made


def begin(table, command, observer=None):
    running = run(command, table, stats=False)
    if observer is not None:
        observer.started(running.txn)
        running.txn.observe(observer)
    return running


def write(table, command, observer=None):
    running = begin(table, command, observer)
    return running.txn.commit(running.operation)


def test_a_program_that_stays_on_another_engine_needs_no_spark():
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from engine.delta import configure, flush_reports, reporting\n"
        "with reporting(table='sales.orders'): pass\n"
        "assert flush_reports()\n"
        "print(sorted(name for name in sys.modules if name.startswith('pyspark.')))"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAKEUI_")}
    told = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], capture_output=True, text=True, env=clean, check=False
    )
    assert (told.stdout.strip(), told.stderr) == ("[]", "")


def test_every_phase_of_a_transaction_is_reported(table, spool):
    with desk() as dashboard:
        box = outbox_to(dashboard.url, spool)
        observer = ReportingObserver(box, table.uri, "DELETE", "DELETE FROM t WHERE x < 3")
        gives_way = begin(table, c.Delete(2, c.Range(0, 2)), observer)
        write(table, c.Delete(3, c.Range(4, 5)))
        gives_way.txn.commit("DELETE")
        loses = begin(table, c.Delete(4, c.Range(3, 4)), observer)
        write(table, c.Update(5, c.Range(3, 4), x=99))
        with pytest.raises(ConflictError):
            loses.txn.commit("DELETE")
        assert box.flush(30)
    told = [(sent["kind"], sent["sequence"], sent["attempt"]) for sent in dashboard.events]
    assert told == [
        ("begun", 0, 1),
        ("resolved", 1, 1),
        ("committed", 2, 1),
        ("begun", 0, 1),
        ("aborted", 1, 1),
    ]
    begun, resolved, committed, _, aborted = dashboard.events
    assert begun["started_at"] == committed["started_at"]
    assert begun["txn_id"] == committed["txn_id"] != aborted["txn_id"]
    assert resolved["conflict"]["current"]["operation"] == "DELETE"
    assert resolved["conflict"]["winner"]["version"] == 2
    assert aborted["exception"] == "ConcurrentDeleteReadException"
    assert aborted["wasted_bytes"] == 0
    assert set(dashboard.tokens) == {"Bearer lake_secret"}
    assert files_of(spool) == []


@pytest.fixture
def reports(spool):
    """Yield a dashboard that the process reports to, set by `configure`."""
    with desk() as dashboard:
        engine.delta.configure(report_to=dashboard.url, token="lake_x", spool=spool)
        try:
            yield dashboard
        finally:
            stop_reports()


def test_attempts_at_one_command_are_reported_as_one_run(table, reports):
    with report_transaction(None, table.uri) as observer:
        loses = begin(table, c.Delete(4, c.Range(3, 4)), observer)
        write(table, c.Update(5, c.Range(3, 4), x=99))
        with pytest.raises(ConflictError):
            loses.txn.commit("DELETE")
        write(table, c.Delete(6, c.Range(0, 1)), observer)
    with report_transaction(None, table.uri) as observer:
        write(table, c.Delete(7, c.Range(2, 3)), observer)
    assert engine.delta.flush_reports(30)
    told = [(sent["kind"], sent["attempt"], sent["run_id"]) for sent in reports.events]
    one, other = told[0][2], told[-1][2]
    assert told == [
        ("begun", 1, one),
        ("aborted", 1, one),
        ("begun", 2, one),
        ("committed", 2, one),
        ("begun", 1, other),
        ("committed", 1, other),
    ]
    assert one != other


def begin_and_fail(table):
    with report_transaction(None, table.uri) as observer:
        begin(table, c.Delete(2, c.Range(0, 1)), observer)
        msg = "bad row"
        raise ValueError(msg)


def test_a_transaction_that_ends_without_a_commit_is_reported(table, reports):
    with report_transaction(None, table.uri) as observer:
        begin(table, c.Delete(2, c.Range(0, 1)), observer)
    with pytest.raises(ValueError, match="bad row"):
        begin_and_fail(table)
    assert engine.delta.flush_reports(30)
    assert [sent["kind"] for sent in reports.events] == ["begun", "ended", "begun", "failed"]


def test_a_write_of_the_data_source_is_on_disk_before_its_process_may_end(tmp_path, spool):
    schema = StructType((StructField("id", LONG), StructField("p", STRING)))
    table = DeltaTable.create(str(tmp_path / "lake"), schema)
    engine.delta.configure(report_to=NOBODY, token="lake_x", spool=spool)
    try:
        append(table, (1, "a"), (2, "b"))
        kept = [[sent["kind"] for sent in batch] for batch in files_of(next(spool.iterdir()))]
    finally:
        stop_reports()
    assert kept == [["begun", "committed"]]


def test_events_saved_on_disk_are_sent_in_the_background(spool):
    with desk() as dashboard:
        box = outbox_to(dashboard.url, spool)
        box.put(event(1))
        box.save()
        assert box.flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["1"]
    assert files_of(spool) == []


def test_the_callers_observer_is_also_called(table, reports):
    seen = []

    class Own(TransactionObserver):
        def committed(self, _txn, committed_version):
            seen.append(committed_version)

    with report_transaction(Own(), table.uri) as observer:
        version = write(table, c.Delete(2, c.Range(0, 1)), observer)
    assert engine.delta.flush_reports(30)
    assert seen == [version]
    assert [sent["kind"] for sent in reports.events] == ["begun", "committed"]


def test_a_statement_text_that_fails_to_build_fails_no_write(table, reports, caplog):
    def words():
        msg = "no session"
        raise RuntimeError(msg)

    with report_transaction(None, table.uri, words) as observer:
        assert write(table, c.Delete(2, c.Range(0, 1)), observer) == 2
    assert engine.delta.flush_reports(30)
    assert [each["operation"] for each in reports.events] == ["", ""]
    assert "could not be determined" in caplog.text


def test_an_event_that_is_no_json_delays_no_other(spool, caplog):
    box = outbox_to(NOBODY, spool)
    box.put(event(1, wasted_bytes=float("nan")))
    box.put(event(2))
    box.save()
    box.close()
    assert [each["txn_id"] for batch in files_of(spool) for each in batch] == ["2"]
    assert "could not be stored" in caplog.text


def test_without_a_dashboard_the_callers_observer_is_alone(table):
    stop_reports()
    own = TransactionObserver()
    with report_transaction(own, table.uri) as observer:
        assert observer is own
    with report_transaction(None, table.uri) as observer:
        assert observer is None


def test_events_that_cannot_be_sent_wait_on_disk_and_are_sent_once(spool):
    box = outbox_to(NOBODY, spool)
    box.put(event(1))
    assert not box.flush(30)
    box.put(event(2))
    box.close()
    assert [sent["txn_id"] for batch in files_of(spool) for sent in batch] == ["1", "2"]
    with desk() as dashboard:
        again = outbox_to(dashboard.url, spool)  # the program's next run
        again.put(event(3))
        assert again.flush(30)
        assert again.flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["1", "2", "3"]
    assert files_of(spool) == []


def test_a_dashboard_that_comes_back_gets_the_waiting_events(spool):
    with desk() as dashboard:
        dashboard.answers = [(503, {"code": "UNAVAILABLE"})]
        box = outbox_to(dashboard.url, spool)
        box.put(event(1))
        assert not box.flush(30)
        assert [len(batch) for batch in files_of(spool)] == [1]
        assert box.flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["1"]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 302])
def test_events_that_were_refused_for_rights_are_sent_again(spool, status):
    with desk() as dashboard:
        dashboard.answers = [(status, {})]
        box = outbox_to(dashboard.url, spool)
        box.put(event(1))
        assert not box.flush(30)
        assert box.flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["1"]


def test_a_token_follows_no_redirect(spool):
    with desk() as elsewhere, desk() as dashboard:
        dashboard.answers, dashboard.headers = [(307, {})], {"Location": elsewhere.url}
        box = outbox_to(dashboard.url, spool)
        box.put(event(1))
        assert not box.flush(30)
    assert elsewhere.tokens == []


def test_an_answer_that_is_no_receipt_keeps_the_batch(spool):
    with desk() as dashboard:
        dashboard.answers = [(200, {"page": "Sign in"})]
        box = outbox_to(dashboard.url, spool)
        box.put(event(1))
        assert not box.flush(30)
    assert [len(batch) for batch in files_of(spool)] == [1]


def test_a_slow_dashboard_holds_up_no_write_and_no_exit(table, spool):
    with desk(answers_at_once=False) as dashboard:
        box = outbox_to(dashboard.url, spool, gather_s=0.0, exit_s=0.01)
        observer = ReportingObserver(box, table.uri)
        write(table, c.Delete(2, c.Range(0, 1)), observer)
        assert dashboard.asked.wait(30)
        version = write(table, c.Delete(3, c.Range(2, 3)), observer)
        assert version == 3
        box.close()
        assert not dashboard.may_answer.is_set()  # it has answered nothing all the while
        assert {sent["kind"] for batch in files_of(spool) for sent in batch} >= {"begun"}
        kept = [sent for batch in files_of(spool) for sent in batch]
    kinds = [sent["kind"] for sent in kept if sent["read_version"] == 2]
    assert kinds == ["begun", "committed"]


def test_a_full_spool_drops_the_oldest_counts_and_says_so(spool, caplog):
    box = outbox_to(NOBODY, spool, spool_bytes=1200)
    with caplog.at_level(logging.WARNING):
        for number in range(8):
            box.put(event(number, statement="x" * 200))
            assert not box.flush(30)
    kept = [sent["txn_id"] for batch in files_of(spool) for sent in batch]
    assert 0 < len(kept) < 8
    assert kept == [str(number) for number in range(8 - len(kept), 8)]
    assert box.dropped == 8 - len(kept)
    assert f"{box.dropped} reports of transactions were dropped" in caplog.text
    with desk() as dashboard:
        box = outbox_to(dashboard.url, spool)
        assert box.flush(30)
    assert sum(body["dropped"] for body in dashboard.bodies) > 0


def test_a_full_disk_keeps_no_half_of_a_batch(tmp_path):
    program = (
        "import resource, sys; from pathlib import Path; from engine.reports.spool import Spool\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "spool = Spool(Path(sys.argv[1]), 10_000)\n"
        "print(spool.add(b'x' * 1000, 3), spool.add(b'x' * 50, 1))"
    )
    told = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program, str(tmp_path / "spool")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "3 0\n"
    assert [len(path.read_bytes()) for path in (tmp_path / "spool").iterdir()] == [50]


def test_a_full_queue_drops_the_oldest_and_informs_the_dashboard(spool, caplog):
    with desk(answers_at_once=False) as dashboard, caplog.at_level(logging.WARNING):
        box = outbox_to(dashboard.url, spool, gather_s=0.0, queue_events=3)
        box.put(event(0))
        assert dashboard.asked.wait(30)
        for number in range(1, 8):
            box.put(event(number))
        dashboard.may_answer.set()
        assert box.flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["0", "5", "6", "7"]
    assert [body["dropped"] for body in dashboard.bodies] == [0, 4]
    assert "4 reports of transactions were dropped" in caplog.text


def test_a_refused_event_stops_no_other(spool, caplog):
    fault = {"code": "INVALID_REQUEST", "detail": "no", "errors": [{"code": "invalid"}]}
    with desk(answers_at_once=False) as dashboard, caplog.at_level(logging.WARNING):
        box = outbox_to(dashboard.url, spool, gather_s=0.0)
        box.put(event(0))
        assert dashboard.asked.wait(30)
        for number in (1, 2):
            box.put(event(number))
        dashboard.answers = [(200, {"refused": []}), (422, fault), (422, fault)]
        dashboard.may_answer.set()
        assert box.flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["0", "2"]
    assert "422 INVALID_REQUEST: no" in caplog.text
    assert files_of(spool) == []


def test_an_empty_spool_file_does_not_stop_the_others(spool):
    with desk() as dashboard:
        away = outbox_to(NOBODY, spool)
        away.put(event(1))
        assert not away.flush(30)
        name = min(path.name for path in spool.iterdir())
        (spool / name.replace(name[:3], "000", 1)).write_bytes(b"")
        dashboard.answers = [(400, {"code": "PARSE_ERROR", "detail": "no JSON"})]
        assert outbox_to(dashboard.url, spool).flush(30)
    assert [sent["txn_id"] for sent in dashboard.events] == ["1"]
    assert list(spool.iterdir()) == []


def test_a_batch_whose_file_cannot_be_removed_is_sent_once(spool, caplog):
    class Stuck(Spool):
        def remove(self, _batch):
            return False

    with desk() as dashboard, caplog.at_level(logging.WARNING):
        kept = Stuck(spool, 10_000)
        kept.add(body_of({"application": "a"}, encode_events([event(1)]), 0), 1)
        dashboard_post = Dashboard(dashboard.url, "lake_x", 30.0).post
        box = ReportOutbox(
            dashboard_post, kept, dict, OutboxLimits(queue_events=10, gather_s=600.0)
        )
        assert not box.flush(30)
    assert len(dashboard.events) == 1
    assert "could not be deleted" in caplog.text


def test_no_password_of_a_location_leaves_the_program():
    place = "s3://ann:s3cret@store/lake/t"
    told = {**event(1), "table": place, "text": f"cannot read {place}"}
    azure = {**event(2), "table": "abfss://lake@account.dfs.core.windows.net/t"}
    sent = b"".join(encode_events([told, azure])).decode()
    assert "s3cret" not in sent
    assert "s3://ann:" in sent
    assert azure["table"] in sent


def test_a_refusal_is_logged_with_its_remedy(spool, caplog):
    refused = {"index": 0, "field": "table", "message": "No table t.", "remedy": "Register it."}
    with desk() as dashboard, caplog.at_level(logging.WARNING):
        dashboard.answers = [(200, {"refused": [refused]})]
        box = outbox_to(dashboard.url, spool)
        box.put(event(1))
        assert box.flush(30)
    assert "No table t. Register it." in caplog.text


def test_a_report_that_fails_fails_no_write(table, caplog):
    class Broken:
        def put(self, _event):
            msg = "broken"
            raise RuntimeError(msg)

    version = write(table, c.Delete(2, c.Range(0, 1)), ReportingObserver(Broken(), table.uri))
    assert version == 2
    assert "could not be reported" in caplog.text


def test_texts_that_no_database_accepts_are_cleaned_before_sending(spool):
    with desk() as dashboard:
        box = outbox_to(dashboard.url, spool)
        box.put(event(1, statement="a\0b\ud800c", table="t" * 9000))
        assert box.flush(30)
    (sent,) = dashboard.events
    assert sent["statement"] == "a\N{REPLACEMENT CHARACTER}b?c"
    assert len(sent["table"]) == 2000


def test_the_spool_is_for_its_owner_alone(tmp_path):
    Spool(tmp_path / "own", 1000).add(b"{}", 1)
    (path,) = (tmp_path / "own").iterdir()
    assert (path.stat().st_mode & 0o077, path.parent.stat().st_mode & 0o077) == (0, 0)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert Spool(shared, 1000).add(b"{}", 1) == 1
    assert list(shared.iterdir()) == []


class TestOtherEngines:
    @pytest.fixture
    def dashboard(self):
        with desk() as dashboard:
            yield dashboard

    @pytest.fixture
    def box(self, dashboard, spool):
        return outbox_to(dashboard.url, spool)

    def test_a_conflict_is_reported_and_raised_again_unchanged(self, box, dashboard):
        class ConcurrentAppendException(Exception):  # noqa: N818 - delta-spark's name
            """The name in delta-spark's Python API."""

        error = ConcurrentAppendException("Files were added by a concurrent update.")
        reports = ConflictReports("sales.orders", "merge", box=box)
        with pytest.raises(ConcurrentAppendException) as raised, reports:
            raise error
        assert raised.value is error
        assert (error.__cause__, error.__context__) == (None, None)
        assert box.flush(30)
        (sent,) = dashboard.events
        assert (sent["kind"], sent["table"], sent["operation"]) == (
            "reported",
            "sales.orders",
            "MERGE",
        )
        assert "ConcurrentAppendException: Files were added" in sent["text"]
        assert sent["started_at"] <= sent["at"]

    def test_a_function_may_be_decorated_and_call_itself(self, box, dashboard):
        @ConflictReports("t", box=box)
        def load(depth):
            if depth:
                return load(depth - 1)
            msg = "Commit failed: a concurrent transaction deleted data this operation read"
            raise OSError(msg)

        with pytest.raises(OSError, match="concurrent"):
            load(2)
        assert box.flush(30)
        assert len(dashboard.events) == 3

    def test_a_function_that_only_begins_when_it_is_called_is_watched_to_its_end(
        self, box, dashboard
    ):
        lost = "Commit failed: a concurrent transaction deleted data this operation read"

        @ConflictReports("awaited", box=box)
        async def load():
            await asyncio.sleep(0)
            raise OSError(lost)

        @ConflictReports("generated", box=box)
        def batches():
            yield 1
            raise OSError(lost)

        with pytest.raises(OSError, match="concurrent"):
            asyncio.run(load())
        with pytest.raises(OSError, match="concurrent"):
            list(batches())
        assert box.flush(30)
        assert [sent["table"] for sent in dashboard.events] == ["awaited", "generated"]

    def test_a_conflict_among_a_group_of_errors_is_reported(self, box, dashboard):
        group = ExceptionGroup("two", [ValueError("no file"), OSError("DELTA_CONCURRENT_APPEND")])
        with pytest.raises(ExceptionGroup), ConflictReports("t", box=box):
            raise group
        assert box.flush(30)
        assert "OSError: DELTA_CONCURRENT_APPEND" in dashboard.events[0]["text"]

    def test_the_cause_of_a_wrapped_error_is_reported_as_its_conflict(self, box, dashboard):
        def stream():
            try:
                msg = "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected."
                raise ValueError(msg)
            except ValueError as error:
                msg = "Query nightly terminated"
                raise RuntimeError(msg) from error

        with pytest.raises(RuntimeError), ConflictReports("t", box=box):
            stream()
        assert box.flush(30)
        assert "DELTA_CONCURRENT_APPEND" in dashboard.events[0]["text"]

    @pytest.mark.parametrize("error", [ValueError("no such column"), KeyboardInterrupt()])
    def test_errors_that_are_no_conflicts_are_not_reported(self, box, dashboard, error):
        with pytest.raises(type(error)), ConflictReports("t", box=box):
            raise error
        assert box.flush(30)
        assert dashboard.events == []

    def test_an_error_without_a_text_is_raised_all_the_same(self, box):
        class GoneError(Exception):
            def __str__(self):
                msg = "the JVM is gone"
                raise OSError(msg)

        with pytest.raises(GoneError), ConflictReports("t", box=box):
            raise GoneError


class TestSettings:
    def test_environment_variables_alone_configure_reporting(self, tmp_path):
        told = {"LAKEUI_URL": "https://lake.example/", "LAKEUI_TOKEN": "lake_x"}
        settings = settings_from(told | {"LAKEUI_SPOOL": str(tmp_path), "LAKEUI_APPLICATION": "n"})
        assert (settings.report_to, settings.application) == ("https://lake.example/", "n")
        assert (settings.spool_bytes, settings.limits.queue_events) == (SPOOL_BYTES, 10_000)
        assert settings.spool_directory.parent == tmp_path
        assert "lake_x" not in repr(settings)

    @pytest.mark.parametrize(
        ("changed", "field"),
        [
            ({"LAKEUI_URL": "ftp://lake"}, "report_to"),
            ({"LAKEUI_URL": "lake.example"}, "report_to"),
            ({"LAKEUI_TOKEN": ""}, "token"),
            ({"LAKEUI_TOKEN": "a\nb"}, "token"),
            ({"LAKEUI_SPOOL_BYTES": "many"}, "LAKEUI_SPOOL_BYTES"),
            ({"LAKEUI_QUEUE_EVENTS": "0"}, "LAKEUI_QUEUE_EVENTS"),
        ],
    )
    def test_an_address_of_no_dashboard_is_refused(self, changed, field):
        told = {"LAKEUI_URL": "https://lake.example", "LAKEUI_TOKEN": "x"} | changed
        with pytest.raises(RequestError) as raised:
            settings_from(told)
        assert raised.value.field == field
        assert raised.value.remedy

    def test_an_unusable_environment_is_logged_and_fails_nothing(self):
        program = (
            "import logging; logging.basicConfig()\n"
            "from engine.delta import reporting\n"
            "try:\n"
            "    with reporting(table='t'): raise OSError('a concurrent transaction x')\n"
            "except OSError: print('raised')"
        )
        told = os.environ | {"LAKEUI_URL": "lake.example", "LAKEUI_TOKEN": "x"}
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-c", program], capture_output=True, text=True, env=told, check=True
        )
        assert done.stdout == "raised\n"
        assert "Transactions are not reported" in done.stderr

    def test_a_program_reports_until_its_end(self, tmp_path):
        program = (
            "import engine.delta\n"
            "try:\n"
            "    with engine.delta.reporting(table='t'):\n"
            "        raise OSError('a concurrent transaction deleted data')\n"
            "except OSError: pass"
        )
        with desk() as dashboard:
            told = os.environ | {
                "LAKEUI_URL": dashboard.url,
                "LAKEUI_TOKEN": "lake_x",
                "LAKEUI_SPOOL": str(tmp_path),
                "LAKEUI_APPLICATION": "hourly",
            }
            subprocess.run([sys.executable, "-c", program], env=told, check=True)  # noqa: S603
        (body,) = dashboard.bodies
        assert body["writer"]["application"] == "hourly"
        assert body["events"][0]["kind"] == "reported"
        assert [*Path(tmp_path).rglob("*.json")] == []

    @pytest.mark.parametrize("way", ["fork", "spawn"])
    def test_a_process_of_a_pool_reports_until_its_end(self, spool, way):
        program = (
            "import multiprocessing, os, sys\n"
            "from engine.delta import configure, reporting\n"
            "def load():\n"
            "    configure(report_to=sys.argv[1], token='lake_x', spool=sys.argv[2])\n"
            "    with reporting(table='t'):\n"
            "        raise OSError('since last commit')\n"
            "if __name__ == '__main__':\n"
            "    process = multiprocessing.get_context(sys.argv[3]).Process(target=load)\n"
            "    process.start()\n"
            "    process.join()\n"
        )
        file = spool.parent / "load.py"
        file.write_text(program)
        with desk() as dashboard:
            subprocess.run(  # noqa: S603 - our own
                [sys.executable, str(file), dashboard.url, str(spool), way],
                capture_output=True,
                check=True,
                env={**os.environ, "PYTHONPATH": str(Path(engine.delta.__file__).parents[2])},
            )
        assert [sent["table"] for sent in dashboard.events] == ["t"]

    def test_configure_sends_later_events(self, spool):
        with desk() as dashboard:
            engine.delta.configure(
                report_to=dashboard.url, token="lake_x", application="adhoc", spool=spool
            )
            try:
                box = outbox()
                assert box is not None
                box.put(event(1))
                assert engine.delta.flush_reports(30)
            finally:
                stop_reports()
        assert dashboard.bodies[0]["writer"]["application"] == "adhoc"
