"""Mail servers that hang, drip or refuse: deliveries end in time, and `doctor` names the fault."""

import socket
import threading
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from lakeui.local_stack.checkup import mail_problem
from lakeui.monitoring.alerting import mail
from lakeui.monitoring.alerting.channels import make_channel, send_test
from lakeui.monitoring.alerting.outbox import deliver
from tests.ports import port_for_later
from tests.services import wait_until

SECONDS = 0.6
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
ANSWERS = {
    "greeting": b"220 here\r\n",
    "EHLO": b"250 here\r\n",
    "MAIL": b"250 ok\r\n",
    "RCPT": b"250 ok\r\n",
    "DATA": b"354 go on\r\n",
    ".": b"250 kept\r\n",
    "QUIT": b"221 bye\r\n",
}
TLS_RECORD = b"\x16\x03\x03\x40\x00"  # a handshake of 16 KiB


@pytest.fixture(autouse=True)
def local_mail_settings(settings):
    settings.EMAIL_URL = "set"
    settings.EMAIL_BACKEND = "lakeui.monitoring.alerting.mail.BoundedBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.ALERT_TIMEOUT_SECONDS = SECONDS


class Dripping:
    """A server that answers normally up to a word, and then one byte at a time."""

    def __init__(self, word, first=b"2"):
        self._word, self._first, self._over = word, first, threading.Event()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._door.close()
        self._thread.join(5)

    def _serve(self):
        line, _ = self._door.accept()
        with line, line.makefile("rb") as words:
            try:
                self._talk(line, words)
            except OSError:  # cut, as it should be
                return

    def _talk(self, line, words):
        asked, is_data = "greeting", False
        while True:
            if asked == self._word:
                line.sendall(self._first)
                while not self._over.wait(0.02):
                    line.sendall(b"5")
                return
            if asked in ANSWERS:
                line.sendall(ANSWERS[asked])
            is_data = asked == "DATA" or (is_data and asked != ".")
            said = words.readline().decode()
            if not said:
                return
            asked = said.strip() if is_data else said.split()[0].upper()


@pytest.fixture
def channel(db):
    return make_channel({"name": "ops", "kind": "email", "target": "ann@example.org"})[0]


@pytest.mark.parametrize("word", [word for word in ANSWERS if word != "QUIT"])
def test_a_server_that_drips_holds_no_worker_beyond_the_time(channel, settings, word):
    with Dripping(word) as server:
        settings.EMAIL_PORT = server.port
        delivery = send_test(channel, "ann", NOON)
        assert deliver(channel.pk, lambda: NOON) == 0
    delivery.refresh_from_db()
    assert delivery.error == f"the mail server did not accept it within {SECONDS:g} s"


def test_a_server_that_drips_its_farewell_has_accepted_the_message(channel, settings):
    settings.ALERT_TIMEOUT_SECONDS = 3  # for all that comes before it, on a busy machine too
    with Dripping("QUIT") as server:
        settings.EMAIL_PORT = server.port
        send_test(channel, "ann", NOON)
        assert deliver(channel.pk, lambda: NOON) == 1


def test_a_server_that_drips_its_handshake_is_cut_too(channel, settings):
    with Dripping("greeting", TLS_RECORD) as server:
        settings.EMAIL_PORT, settings.EMAIL_USE_SSL = server.port, True
        delivery = send_test(channel, "ann", NOON)
        assert deliver(channel.pk, lambda: NOON) == 0
    delivery.refresh_from_db()
    assert delivery.error == f"the mail server did not accept it within {SECONDS:g} s"


def test_a_conversation_leaves_no_thread_and_no_line_behind(channel, settings):
    settings.ALERT_TIMEOUT_SECONDS = 30
    with run_mail_server(settings):
        send_test(channel, "ann", NOON)
        before = set(threading.enumerate())
        assert deliver(channel.pk, lambda: NOON) == 1
        wait_until(
            lambda: set(threading.enumerate()) <= before, "the threads of the delivery to end"
        )


# What doctor says


class Handler:
    """A handler that accepts every message, except from senders at evil.example."""

    def __init__(self):
        self.kept = []

    async def handle_MAIL(self, _server, _session, envelope, address, _options):  # noqa: N802
        if address.endswith("@evil.example"):
            return "550 not from there"
        envelope.mail_from = address
        return "250 ok"

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - its name
        self.kept.append(envelope)
        return "250 kept"


@contextmanager
def run_mail_server(settings, **options):
    handler = Handler()
    controller = Controller(handler, hostname="127.0.0.1", port=port_for_later(), **options)
    controller.start()
    settings.EMAIL_PORT = controller.port
    try:
        yield handler
    finally:
        controller.stop()


def _knows_ann(_server, _session, _envelope, _mechanism, data):
    return AuthResult(success=data.password == b"right", handled=False)


AUTH = {"authenticator": _knows_ann, "auth_require_tls": False}


def test_the_check_of_a_mail_server_sends_no_message(settings):
    with run_mail_server(settings) as handler:
        assert mail_problem() == ""
    assert handler.kept == []


def test_without_a_mail_server_there_is_nothing_to_check(settings):
    settings.EMAIL_URL = ""
    assert mail_problem() == ""


@pytest.mark.parametrize(
    ("password", "words"), [("right", ""), ("wrong", "refuses the login (535)")]
)
def test_a_login_is_tried(settings, password, words):
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "ann", password
    with run_mail_server(settings, **AUTH):
        problem = mail_problem()
    assert words in problem
    assert bool(problem) == bool(words)
    assert password not in problem


def test_features_that_the_settings_need_and_the_server_lacks_are_named(settings):
    settings.EMAIL_USE_TLS = True
    with run_mail_server(settings):
        assert "does not support an option of EMAIL_URL: STARTTLS" in mail_problem()
    settings.EMAIL_USE_TLS, settings.EMAIL_USE_SSL = False, True
    with run_mail_server(settings):
        assert "does not support the TLS mode of EMAIL_URL" in mail_problem()


def test_a_refused_sender_is_named(settings):
    settings.DEFAULT_FROM_EMAIL = "Lake <lake@evil.example>"
    with run_mail_server(settings):
        assert "refuses the sender Lake <lake@evil.example> (550)" in mail_problem()


def test_a_mail_server_that_is_away_or_silent_is_reported_in_time(settings, dead):
    settings.EMAIL_PORT = dead
    assert "is unreachable: Connection refused" in mail_problem()
    with Dripping("greeting") as server:
        settings.EMAIL_PORT = server.port
        assert "did not answer within 0.6 s" in mail.server_problem(SECONDS)
