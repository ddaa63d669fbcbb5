"""Turns of requests: who works next, by account.

A request works from the end of its body to the start of its answer, and may hold a connection of
the database meanwhile. Threads of a process share one core, so each further request at work delays
all others: few work at once. The next turn goes to the client with the fewest requests at work, and
among these to the one that has used the least time. So a client with many or long requests waits
for itself, and delays others by little more than one request.
"""

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.http.cookie import parse_cookie

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
ClientKey = tuple[str, object]
"""What a client is counted by: an account, or the address of an unknown visitor."""

ACCOUNT = "lakeui.account"
MOST_AT_WORK = 16
MOST_AT_ONCE = 3
LONG_S = 2.0
"""A request that works longer waits for something else: another one may work beside it."""
MOST_OF_ONE_CLIENT = 4
MOST_QUEUED_OF_ONE = 100
_MOST_KNOWN = 10_000


@dataclass(slots=True)
class TurnClient:
    """A client's requests.

    Attributes:
        at_work: how many of them have a turn.
        used_s: the time they worked, never less than that of the last client that got a turn: an
            idle client saves nothing up.
        queue: those that wait for a turn, the oldest first.
    """

    at_work: int = 0
    used_s: float = 0.0
    queue: "deque[asyncio.Future[None]]" = field(default_factory=deque)


class RequestTurns:
    """The turns of one process."""

    def __init__(self, most: int, most_at_once: int, most_of_one: int) -> None:
        self._most, self._most_at_once, self._most_of_one = most, most_at_once, most_of_one
        self._clients: dict[ClientKey, TurnClient] = {}
        self._at_work = self._at_once = 0
        self._used_s = 0.0  # by the client that got the last turn, when it got it

    def count_queued(self, key: ClientKey) -> int:
        """Return how many requests of a client wait for a turn."""
        client = self._clients.get(key)
        return len(client.queue) if client else 0

    async def take(self, key: ClientKey) -> None:
        """Wait for a turn."""
        self._forget_idle()
        client = self._clients.setdefault(key, TurnClient())
        turn = asyncio.get_running_loop().create_future()
        if not client.queue and not client.at_work:
            client.used_s = max(client.used_s, self._used_s)
        client.queue.append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(key, 0.0, is_long=False)
            else:
                with suppress(ValueError):
                    client.queue.remove(turn)
            raise

    def note_long(self) -> None:
        """Let another request work beside a long one."""
        self._at_once -= 1
        self._give()

    def end(self, key: ClientKey, worked_s: float, *, is_long: bool) -> None:
        """Give a turn back."""
        client = self._clients[key]
        client.at_work -= 1
        client.used_s += worked_s
        self._at_work -= 1
        self._at_once -= not is_long
        self._give()

    def _give(self) -> None:
        while self._at_work < self._most and self._at_once < self._most_at_once:
            waiting = [
                client
                for client in self._clients.values()
                if client.queue and client.at_work < self._most_of_one
            ]
            if not waiting:
                return
            client = min(waiting, key=lambda client: (client.at_work, client.used_s))
            turn = client.queue.popleft()
            if turn.cancelled():
                continue
            turn.set_result(None)
            self._used_s = max(self._used_s, client.used_s)
            client.at_work += 1
            self._at_work += 1
            self._at_once += 1

    def _forget_idle(self) -> None:
        """Forget clients without requests, once there are many."""
        if len(self._clients) > _MOST_KNOWN:
            self._clients = {
                key: client
                for key, client in self._clients.items()
                if client.queue or client.at_work
            }


class RequestTurn:
    """A request's right to work. It is given back while the request waits or sends."""

    def __init__(self, turns: RequestTurns, key: ClientKey) -> None:
        self._turns, self._key = turns, key
        self._began_s = 0.0
        self._is_long = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_held(self) -> bool:
        """Whether the request may work."""
        return self._timer is not None

    async def take(self) -> None:
        """Wait for the turn, unless the request has it."""
        if self.is_held:
            return
        await self._turns.take(self._key)
        self._began_s, self._is_long = monotonic(), False
        self._timer = asyncio.get_running_loop().call_later(LONG_S, self._note_long)

    def leave(self) -> None:
        """Give it back; doing so again changes nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._turns.end(self._key, monotonic() - self._began_s, is_long=self._is_long)

    def _note_long(self) -> None:
        self._is_long = True
        self._turns.note_long()


_turn: ContextVar[RequestTurn | None] = ContextVar("turn", default=None)


def current_turn() -> RequestTurn | None:
    """Return the turn of the request that this code answers."""
    return _turn.get()


class RequestsInTurn:
    """The application, whose requests work in turn.

    The account behind credentials is known once a request with them was answered: the application
    puts it into the scope under `ACCOUNT`. Until then they count by the address that sends them:
    whoever invents credentials is one client.
    """

    def __init__(
        self,
        app: App,
        address_of: Callable[[Scope], str],
        refuse: Callable[[Scope, Send], Awaitable[None]],
        *,
        most: int = MOST_AT_WORK,
        most_at_once: int = MOST_AT_ONCE,
        most_of_one: int = MOST_OF_ONE_CLIENT,
    ) -> None:
        self._app, self._address_of, self._refuse = app, address_of, refuse
        self._turns = RequestTurns(most, most_at_once, most_of_one)
        self._accounts: OrderedDict[bytes, object] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        credentials = digest_credentials(scope)
        key = self._key_of(scope, credentials)
        if self._turns.count_queued(key) >= MOST_QUEUED_OF_ONE:
            await self._refuse(scope, send)
            return
        turn = RequestTurn(self._turns, key)

        async def receive_then_take() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                await turn.take()
            return message

        async def leave_then_send(message: Message) -> None:
            if turn.is_held:  # a slow reader holds neither a connection nor a turn
                self._learn(credentials, scope.get(ACCOUNT))
                await sync_to_async(close_connections)()
                turn.leave()
            await send(message)

        token = _turn.set(turn)
        try:
            await self._app(scope, receive_then_take, leave_then_send)
        finally:
            _turn.reset(token)
            turn.leave()

    def _key_of(self, scope: Scope, credentials: bytes) -> ClientKey:
        account = self._accounts.get(credentials)
        return ("address", self._address_of(scope)) if account is None else ("account", account)

    def _learn(self, credentials: bytes, account: object) -> None:
        if credentials and account is not None:
            self._accounts[credentials] = account
            self._accounts.move_to_end(credentials)
            if len(self._accounts) > _MOST_KNOWN:
                self._accounts.popitem(last=False)


def digest_credentials(scope: Scope) -> bytes:
    """Return a short key of a request's session or authorization; nothing without either."""
    headers = dict(scope["headers"])
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    session = cookies.get(settings.SESSION_COOKIE_NAME, "").encode()
    credentials = session or headers.get(b"authorization", b"")
    return hashlib.sha256(credentials).digest() if credentials else b""


def close_connections() -> None:
    """Close this thread's connections to the database, if they may be."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
