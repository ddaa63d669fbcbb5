"""Sends events in the background: a queue in memory, a spool on disk, one thread, bounds on all.

`put` takes a lock for a moment and does nothing else, so no write waits for the dashboard. Events
are sent in batches of JSON within the bounds of the dashboard.
"""

import json
import logging
import multiprocessing.util
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from engine.clock import Clock, SystemClock
from engine.reports.dashboard import BatchReply, DashboardAnswer
from engine.reports.spool import Spool

logger = logging.getLogger(__name__)

Event = Mapping[str, Any]
"""An event with the dashboard's names; `conflict` may be the engine's value until it is sent."""

MAX_EVENTS = 200
MAX_BODY_BYTES = 4_000_000
MAX_EVENT_BYTES = 400_000
_PASSWORD = re.compile(r"(://[^/\s:@]{1,256}):[^/\s@]{1,1024}@")
"""The password in a location; without a colon, the part before @ is an Azure container."""
_LIMITS = {"table": 2000, "operation": 100, "statement": 20_000, "text": 20_000}

Post = Callable[[bytes], DashboardAnswer]
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """Limits on kept events and on waiting.

    Attributes:
        queue_events: events in memory; over it the oldest are dropped.
        gather_s: time to wait for more events before sending.
        exit_s: time the program's end may wait for sending.
    """

    queue_events: int
    gather_s: float = 1.0
    exit_s: float = 2.0


class ReportOutbox:
    """The outbox for events of this process. It works from its first event until `close`."""

    def __init__(
        self,
        post: Post,
        spool: Spool,
        writer: Callable[[], Mapping[str, str]],
        limits: OutboxLimits,
        clock: Clock | None = None,
    ) -> None:
        self._post, self._spool, self._writer = post, spool, writer
        self._limits, self._clock = limits, clock or SystemClock()
        self._queue: deque[Event] = deque()
        self._sending: list[Event] = []
        self._survives_forks = False
        self._reset()
        self.dropped = 0
        self._untold = 0  # dropped events not yet reported by a batch
        self._logged = 0
        self._quiet_until_s, self._pause_s = 0.0, 0.0
        self._reasons: set[str] = set()

    def put(self, event: Event) -> None:
        """Queue an event for sending; over the limit the oldest one is dropped."""
        with self._changed:
            if self._is_closed:
                self._drop(1)
                return
            if len(self._queue) >= self._limits.queue_events:
                self._queue.popleft()
                self._drop(1)
            self._queue.append(event)
            if self._thread is None:
                self._start()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Send everything now, including from disk; return whether it was sent in time."""
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._start()
            self._flushes += 1
            target = self._flushes
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._flushed >= target, timeout_s)
            return self._flushed >= target and self._is_all_sent

    def save(self) -> None:
        """Save queued events to disk and send from there: they outlive this process."""
        with self._changed:
            left = list(self._queue)
            self._queue.clear()
        self._keep_safely(left)
        with self._changed:
            self._has_saved = bool(left)
            self._changed.notify_all()

    def close(self) -> None:
        """Send for a short time, then save the rest to disk."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(self._limits.exit_s)
        with self._changed:
            left, self._sending = [*self._sending, *self._queue], []
            self._queue.clear()
        self._keep_safely(left)
        self._say_dropped()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_all_sent, self._has_saved = True, False
        self._flushes = self._flushed = 0

    def _start(self) -> None:
        """Start the thread; a forked child starts its own."""
        if not self._survives_forks:
            self._survives_forks = True
            os.register_at_fork(after_in_child=self._forget)
        if multiprocessing.parent_process() is not None:  # such a process ends without atexit
            multiprocessing.util.Finalize(None, self.close, exitpriority=0)
        self._thread = threading.Thread(target=self._run, name="lakeui-reports", daemon=True)
        self._thread.start()

    def _forget(self) -> None:
        """Forget the events queued before a fork: the parent sends them."""
        self._queue.clear()
        self._sending = []
        self._reset()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, self._idle_s())
                asked, closing = self._flushes, self._is_closed
                is_now = closing or asked > self._flushed
                if not is_now and self._queue:
                    self._changed.wait_for(self._is_urgent, self._limits.gather_s)
                    asked, closing = self._flushes, self._is_closed
                    is_now = closing or asked > self._flushed
            try:
                self._work(at_once=is_now)
            except Exception:  # our own errors must not end the program or reporting
                logger.exception("Reports of transactions could not be sent")
            self._say_dropped()
            with self._changed:
                self._flushed = asked
                self._changed.notify_all()
                if closing:
                    return

    def _has_work(self) -> bool:
        return bool(self._queue) or self._has_saved or self._is_urgent()

    def _is_urgent(self) -> bool:
        return self._is_closed or self._flushes > self._flushed

    def _idle_s(self) -> float | None:
        """Return the time until the next retry of saved events; None if there are none."""
        if self._is_all_sent:
            return None
        return max(0.0, self._quiet_until_s - self._clock.monotonic_s())

    def _work(self, *, at_once: bool) -> None:
        """Send the events on disk, which are older, then the queued ones."""
        self._has_saved = False
        may_try = at_once or self._clock.monotonic_s() >= self._quiet_until_s
        self._is_all_sent = self._send_spooled() if may_try else False
        with self._changed:
            self._sending = list(self._queue)
            self._queue.clear()
        if not self._is_all_sent or not self._send(self._sending):
            self._is_all_sent = False
            self._keep(self._sending)
        with self._changed:
            self._sending = []

    def _send_spooled(self) -> bool:
        """Send the events on disk; return whether none is left."""
        while (batch := self._spool.oldest()) is not None:
            if not self._deliver(batch.body):
                return False
            if not self._spool.remove(batch):
                self._quiet_until_s = self._clock.monotonic_s() + _LONGEST_PAUSE_S
                self._say(
                    f"{batch.path} was sent, but its file could not be deleted. Delete the file."
                )
                return False
        return True

    def _send(self, events: list[Event]) -> bool:
        """Send events, removing sent ones from `_sending`."""
        sent = 0
        for batch in batches_of(encode_events(events)):
            with self._changed:
                untold = self._untold
            if not self._deliver(body_of(self._writer(), batch, untold)):
                with self._changed:
                    self._sending = events[sent:]
                return False
            with self._changed:
                self._untold -= untold
            sent += len(batch)
        return True

    def _deliver(self, body: bytes) -> bool:
        """Deliver a batch; return False if it must be retried."""
        answer = self._post(body)
        if answer.reply is BatchReply.LATER:
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2 or _FIRST_PAUSE_S)
            pause_s = max(self._pause_s, min(answer.retry_after_s or 0.0, 3600.0))
            self._quiet_until_s = self._clock.monotonic_s() + pause_s
            self._say(
                "The dashboard accepts no reports now. They are kept and sent later. "
                f"{answer.reason}"
            )
            return False
        self._pause_s = self._quiet_until_s = 0.0
        if answer.reply is BatchReply.UNUSABLE:
            if halves := halves_of(body):  # one undeliverable event must not block others
                return all(self._deliver(half) for half in halves)
            self._say(f"The dashboard refused a report of a transaction. {answer.reason}")
        for fault in answer.refused:
            self._say(f"A report was refused: {fault.get('message')} {fault.get('remedy') or ''}")
        return True

    def _keep_safely(self, events: list[Event]) -> None:
        """Save events from a thread of the program, logging any failure."""
        try:
            self._keep(events)
        except Exception:
            logger.exception("Reports of transactions could not be kept")

    def _keep(self, events: list[Event]) -> None:
        """Write events to disk, counting those without room."""
        for batch in batches_of(encode_events(events)):
            with self._changed:
                untold, self._untold = self._untold, 0
            gone = self._spool.add(body_of(self._writer(), batch, untold), len(batch))
            with self._changed:
                self._drop(gone)

    def _drop(self, count: int) -> None:
        """Count dropped events; the caller holds the lock."""
        self.dropped += count
        self._untold += count

    def _say_dropped(self) -> None:
        if self.dropped > self._logged:
            self._logged = self.dropped
            what = (
                "%d reports of transactions were dropped so far, because the queue and the "
                "spool are full"
            )
            logger.warning(what, self.dropped)

    def _say(self, what: str) -> None:
        """Log each reason once."""
        if what not in self._reasons and len(self._reasons) < 100:
            self._reasons.add(what)
            logger.warning("%s", what)


def encode_events(events: Iterable[Event]) -> list[bytes]:
    """Encode each event as JSON; a long one loses its decision record, then its files.

    Events that cannot be encoded are skipped, to let the others pass.
    """
    encoded = []
    for event in events:
        try:
            encoded.append(_encode_event(event))
        except (TypeError, ValueError, RecursionError):
            logger.exception("A report of a transaction could not be stored")
    return encoded


def batches_of(events: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split the events in order into batches within the limits of a request."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        if batch and (len(batch) == MAX_EVENTS or size + len(event) > MAX_BODY_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event) + 1
    if batch:
        yield batch


def body_of(writer: Mapping[str, str], events: Sequence[bytes], dropped: int) -> bytes:
    """Build the request's body."""
    head = json.dumps({"writer": _clean(writer), "dropped": dropped})
    return head[:-1].encode() + b', "events": [' + b",".join(events) + b"]}"


def halves_of(body: bytes) -> tuple[bytes, ...]:
    """Split a batch in two; return () for a single event or an invalid batch."""
    try:
        batch = json.loads(body)
        events = list(batch["events"])
    except (ValueError, KeyError, TypeError):  # files may be empty after a power failure
        return ()
    half = len(events) // 2
    parts = [events[:half], events[half:]] if half else []
    return tuple(json.dumps({**batch, "events": part}).encode() for part in parts)


def _encode_event(event: Event) -> bytes:
    if is_dataclass(said := event.get("conflict")) and not isinstance(said, type):
        event = {**event, "conflict": asdict(said)}
    body = _json(event)
    for left_out in (("decision",), ("files", "rows", "partitions")):
        conflict = event.get("conflict")
        if len(body) <= MAX_EVENT_BYTES or not isinstance(conflict, Mapping):
            break
        kept = {name: value for name, value in conflict.items() if name not in left_out}
        if "files" in left_out and "how" in conflict:
            kept["files"] = []  # required for a resolved conflict
        event = {**event, "conflict": kept}
        body = _json(event)
    return body


def _json(event: Event) -> bytes:
    cut = {
        name: value[: _LIMITS[name]] if name in _LIMITS else value for name, value in event.items()
    }
    return json.dumps(_clean(cut), allow_nan=False, default=str).encode()


def _clean(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Remove passwords, and characters databases reject: NUL and lone surrogates."""
    if isinstance(value, str):
        text = _PASSWORD.sub(r"\1:…@", str(value)).replace("\0", "\N{REPLACEMENT CHARACTER}")
        return text.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
