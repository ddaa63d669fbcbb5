"""Settings of reports, from `configure` or the environment; one outbox per process."""

import atexit
import getpass
import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from engine.errors import EngineError, RequestError
from engine.reports.dashboard import Dashboard
from engine.reports.outbox import OutboxLimits, ReportOutbox
from engine.reports.spool import Spool
from engine.transaction.pending_commit import ENGINE_INFO

logger = logging.getLogger(__name__)

SPOOL_BYTES, QUEUE_EVENTS = 64 * 1024 * 1024, 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for this program's reports.

    Attributes:
        report_to: the dashboard's address.
        token: a token with the role reporter or higher.
        application: the pipeline's name; by default Spark's application or the script.
        spool: the directory for undelivered reports.
        spool_bytes: its size limit; over it the oldest batches are dropped.
        timeout_s: the time limit for the dashboard's response.
        limits: limits of the queue in memory, and of waiting.
    """

    report_to: str
    token: str = field(repr=False)
    application: str
    spool: Path
    spool_bytes: int
    limits: OutboxLimits
    timeout_s: float = 10.0

    @property
    def spool_directory(self) -> Path:
        """The directory for this dashboard's undelivered reports only."""
        return self.spool / sha256(self.report_to.rstrip("/").encode()).hexdigest()[:16]


def configure(
    *,
    report_to: str,
    token: str,
    application: str = "",
    spool: str | Path | None = None,
    spool_bytes: int | None = None,
    queue_events: int | None = None,
) -> None:
    """Report this program's transactions to a dashboard, overriding the environment.

    Raises:
        RequestError: the address is invalid, or there is no token.
    """
    told = {
        "LAKEUI_URL": report_to,
        "LAKEUI_TOKEN": token,
        "LAKEUI_APPLICATION": application or os.environ.get("LAKEUI_APPLICATION", ""),
        "LAKEUI_SPOOL": str(spool or os.environ.get("LAKEUI_SPOOL", "")),
        "LAKEUI_SPOOL_BYTES": str(spool_bytes or os.environ.get("LAKEUI_SPOOL_BYTES", "")),
        "LAKEUI_QUEUE_EVENTS": str(queue_events or os.environ.get("LAKEUI_QUEUE_EVENTS", "")),
    }
    _reports.use(settings_from(told))


def settings_from(told: Mapping[str, str]) -> Settings:
    """Read the settings from environment variables.

    Raises:
        RequestError: they do not describe a dashboard.
    """
    url, token = told.get("LAKEUI_URL", "").strip(), told.get("LAKEUI_TOKEN", "").strip()
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{url[:200]!r} is not a valid dashboard URL."
        raise RequestError(msg, "Use https://host, as in LAKEUI_URL.", field="report_to")
    if not token.isascii() or not token.isprintable() or not token:
        msg = "No token for the dashboard is set."
        raise RequestError(
            msg, "Create a token with the role reporter and set LAKEUI_TOKEN to it.", field="token"
        )
    return Settings(
        report_to=url,
        token=token,
        application=told.get("LAKEUI_APPLICATION", "").strip(),
        spool=Path(told.get("LAKEUI_SPOOL") or _state_home() / "lakeui" / "reports"),
        spool_bytes=_number(told, "LAKEUI_SPOOL_BYTES", SPOOL_BYTES),
        limits=OutboxLimits(queue_events=_number(told, "LAKEUI_QUEUE_EVENTS", QUEUE_EVENTS)),
    )


def outbox() -> ReportOutbox | None:
    """Return the outbox; None if this program does not report."""
    return _reports.outbox()


def stop_reports() -> None:
    """Stop reporting; send waiting events, or keep them on disk."""
    _reports.use(None)


def name_application(name: str | None) -> None:
    """Set the pipeline's name for settings without one."""
    if name:
        _reports.fallback_name = name


def flush_reports(timeout_s: float = 10.0) -> bool:
    """Send everything waiting, including on disk; return whether all was sent in time."""
    box = outbox()
    return box is None or box.flush(timeout_s)


class _Reports:
    """The settings and the outbox of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_settled = False
        self._outbox: ReportOutbox | None = None
        self._settings: Settings | None = None
        self.fallback_name = ""

    def outbox(self) -> ReportOutbox | None:
        """Return the outbox of the settings; the environment is read once."""
        if not self._is_settled:
            with self._lock:
                if not self._is_settled:
                    self._settle(_read_environment())
        return self._outbox

    def use(self, settings: Settings | None) -> None:
        """Switch to other settings; None turns reports off."""
        with self._lock:
            before = self._outbox
            self._settle(settings)
        if before is not None:
            before.close()

    def close(self) -> None:
        """Close the outbox at the program's end."""
        if self._outbox is not None:
            self._outbox.close()

    def _settle(self, settings: Settings | None) -> None:
        self._settings, self._outbox = settings, None
        if settings is not None:
            dashboard = Dashboard(settings.report_to, settings.token, settings.timeout_s)
            spool = Spool(settings.spool_directory, settings.spool_bytes)
            self._outbox = ReportOutbox(dashboard.post, spool, self._writer, settings.limits)
        self._is_settled = True

    def _writer(self) -> Mapping[str, str]:
        named = self._settings.application if self._settings else ""
        script = Path(sys.argv[0]).name if sys.argv else ""
        return {
            "application": (named or self.fallback_name or script or "python")[:100],
            "host": socket.gethostname()[:255],
            "user": _user()[:255],
            "engine": ENGINE_INFO,
        }


def _read_environment() -> Settings | None:
    """Read settings from the environment; return None, with a warning, if they are invalid."""
    if not os.environ.get("LAKEUI_URL"):
        return None
    try:
        return settings_from(os.environ)
    except Exception as error:  # any error in it
        logger.warning("Transactions are not reported: %s", error, exc_info=_unforeseen(error))
        return None


def _unforeseen(error: Exception) -> Exception | None:
    return None if isinstance(error, EngineError) else error


def _number(told: Mapping[str, str], name: str, default: int) -> int:
    text = told.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        msg = f"{name} is {text[:40]!r}."
        raise RequestError(msg, "Use a whole number of 1 or more.", field=name)
    return int(text)


def _state_home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return str(os.getuid())


_reports = _Reports()
atexit.register(_reports.close)
