"""The program behind a commit, by its `engineInfo`, and the features that it lacks.

Programs name themselves in their own ways: `Apache-Spark/3.5.1 Delta-Lake/3.2.0`,
`Databricks-Runtime/14.3.x-scala2.12`, `delta-rs:py-1.2.0`, `lakeui/1.4`. Programs that only read
leave no trace in a log.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.conflicts.eligibility import RUNTIMES

THIS_ENGINE, DATABRICKS, DELTA_SPARK, DELTA_RS = (
    "this engine",
    "Databricks Runtime",
    "delta-spark",
    "delta-rs",
)
_NAMES = (
    (THIS_ENGINE, re.compile(r"^lakeui/(\d[\w.]{0,20})")),
    (DATABRICKS, re.compile(r"^Databricks-Runtime/(\d+(?:\.\d+)?)")),
    (DELTA_SPARK, re.compile(r"Delta-Lake/(\d[\w.]{0,20})")),
    (DELTA_RS, re.compile(r"^delta-rs:(?:[a-z]+-)?(\d[\w.]{0,20})")),
    (DELTA_RS, re.compile(r"^delta-rs()")),
)
_FIRST: Mapping[str, Mapping[str, tuple[int, ...] | None]] = {  # None: no version has it
    "deletionVectors": {DATABRICKS: (12, 2), DELTA_SPARK: (2, 3), DELTA_RS: (1, 0)},
    "rowTracking": {DATABRICKS: (14, 1), DELTA_SPARK: (3, 2), DELTA_RS: None},
}
_THIS, _DBR_14_3, _DBR_14_2, _DBR_14_0, _DBR_13_3, _OPEN_SOURCE = (one.name for one in RUNTIMES)
OLDER_DATABRICKS = "Databricks Runtime before 13.3"
NOT_RECORDED, OTHER = "not recorded", "another engine"


@dataclass(frozen=True, slots=True)
class WriterClient:
    """A program by name and version; the version is empty if unknown."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    def lacks(self, feature: str) -> bool:
        """Whether it is known to be locked out of a table with this feature."""
        first = _FIRST.get(feature, {})
        if self.name not in first:
            return False
        needed = first[self.name]
        return needed is None or (bool(self.version) and _numbers(self.version) < needed)

    @property
    def runtime(self) -> str:
        """Its name among the engine's `RUNTIMES`; others have a name of their own."""
        if self.name == DATABRICKS:
            return _databricks(_numbers(self.version))
        if not self.name:
            return NOT_RECORDED
        runtimes = {THIS_ENGINE: _THIS, DELTA_SPARK: _OPEN_SOURCE, DELTA_RS: _OPEN_SOURCE}
        return runtimes.get(self.name, OTHER)


@lru_cache(maxsize=1024)
def client_of(engine_info: str) -> WriterClient:
    """Return the program in an `engineInfo`; an unknown one by its own name."""
    for name, pattern in _NAMES:
        if match := pattern.search(engine_info):
            return WriterClient(name, match[1])
    return WriterClient(engine_info[:60])


def _databricks(version: tuple[int, ...]) -> str:
    if version >= (14, 3):
        return _DBR_14_3
    if version >= (14, 2):
        return _DBR_14_2
    if version >= (14, 0):
        return _DBR_14_0
    return _DBR_13_3 if version >= (13, 3) else OLDER_DATABRICKS


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
