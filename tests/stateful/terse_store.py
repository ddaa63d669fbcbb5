"""A log with as little commit information as the protocol allows, as other engines write it."""

import json
import random
import re
from typing import Any

from engine.storage.base import Store
from tests.stateful.weather import FakeClock, ForgetfulStore

_COMMIT = re.compile(r"_delta_log/\d{20}\.json")
_TOLD = (
    "operation",
    "operationParameters",
    "operationMetrics",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
    "engineInfo",
)
_OF_REMOVES = ("extendedFileMetadata", "partitionValues", "size", "stats")


class TerseStore(ForgetfulStore):
    """A store that omits optional commit information, some or all of it, by a seed.

    It keeps the commit's time and transaction id, because tests need them.
    """

    def __init__(self, inner: Store, clock: FakeClock, seed: int) -> None:
        super().__init__(inner, clock)
        self._dice = random.Random(f"terse {seed}")  # noqa: S311 - a seed reproduces a history

    def put_if_absent(self, path: str, data: bytes) -> None:
        is_commit = _COMMIT.fullmatch(path) is not None
        super().put_if_absent(path, self._tersely(data) if is_commit else data)

    def _tersely(self, data: bytes) -> bytes:
        actions = [json.loads(line) for line in data.splitlines()]
        for kind, action in (pair for line in actions for pair in line.items()):
            self._shorten(kind, action)
        if self._dice.random() < 0.3:
            actions.reverse()
        return "".join(f"{json.dumps(action)}\n" for action in actions).encode()

    def _shorten(self, kind: str, action: dict[str, Any]) -> None:
        names: list[str] = []
        if kind == "commitInfo":
            names = [name for name in _TOLD if self._dice.random() < 0.6]
        elif kind == "remove":
            names = [name for name in _OF_REMOVES if self._dice.random() < 0.4]
        elif kind == "add" and action.get("stats") and self._dice.random() < 0.4:
            count = json.loads(action["stats"])["numRecords"]
            action["stats"] = json.dumps({"numRecords": count})
        for name in names:
            action.pop(name, None)
