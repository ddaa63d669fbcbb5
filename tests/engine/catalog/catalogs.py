"""A catalog in memory as the model, and faults between it and its clients."""

import random
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.catalog.catalog import (
    CatalogTable,
    CatalogTableName,
    GroupCommit,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
    check_unchanged,
    refuse_group,
)
from engine.errors import (
    CatalogDeniedError,
    CatalogError,
    CatalogTableMissingError,
    GroupRefusedError,
    StorageOutcomeUnknownError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
    VersionTakenError,
)

NAME = "main.default.t"


@dataclass
class ModelTable:
    table: CatalogTable
    ratified: dict[int, RatifiedCommit] = field(default_factory=dict)
    published: int = 0

    @property
    def latest(self) -> int:
        return max(self.ratified, default=0)


@dataclass
class ModelCatalog:
    """A catalog that ratifies each version once, in order, and forgets the names of published commits."""

    permitted: frozenset[str] = frozenset()
    unpublished: int = 10
    remembers: int = 0
    tables: dict[str, ModelTable] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    name: str = "the model"
    commits_groups = True

    def resolve_table(self, name: CatalogTableName) -> CatalogTable:
        if str(name) not in self.names:
            raise TableNotFoundError(str(name))
        return self.tables[self.names[str(name)]].table

    def list_commits(self, table: CatalogTable) -> RatifiedCommits:
        with self.lock:
            managed = self._find(table)
            after = managed.published - self.remembers
            named = [commit for v, commit in managed.ratified.items() if v > after]
            return RatifiedCommits(managed.latest, tuple(reversed(named)))

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        with self.lock:
            managed, commit = self._find(table), proposal.commit
            if published_version is not None:
                self.report_published(table, published_version)
            if commit.version <= managed.latest:
                raise VersionTakenError(table.table_id)
            assert commit.version == managed.latest + 1
            if managed.latest - managed.published >= self.unpublished:
                raise UnpublishedLimitError(table.table_id)
            managed.ratified[commit.version] = commit

    def ratify_group(
        self, commits: Sequence[GroupCommit], unchanged: Mapping[CatalogTableName, int]
    ) -> None:
        with self.lock:
            before = {key: dict(one.ratified) for key, one in self.tables.items()}
            try:
                for name, version in unchanged.items():
                    table = self.resolve_table(name)
                    with refuse_group(table.table_id):
                        check_unchanged(table, self._find(table).latest, version)
                for one in commits:
                    with refuse_group(one.table.table_id):
                        self.ratify(one.table, one.proposal, one.published_version)
            except GroupRefusedError:
                for key, ratified in before.items():
                    self.tables[key].ratified = ratified
                raise

    def report_published(self, table: CatalogTable, version: int) -> None:
        with self.lock:
            managed = self._find(table)
            assert version <= managed.latest
            managed.published = max(managed.published, version)

    def read_versions(self, tables: Sequence[CatalogTable]) -> tuple[int, ...]:
        with self.lock:
            return tuple(self._find(table).latest for table in tables)

    def stage_table(self, name: CatalogTableName) -> CatalogTable:
        if str(name) in self.names:
            raise TableExistsError(str(name))
        table_id = str(uuid.uuid4())
        location = f"memory://managed/{table_id}"
        properties = {"io.unitycatalog.tableId": table_id}
        return CatalogTable(
            name, table_id, location, permitted=self.permitted, required_properties=properties
        )

    def register_table(self, staged: CatalogTable, first: ProposedCommit) -> None:
        assert first.commit.version == 0
        with self.lock:
            if str(staged.name) in self.names:
                raise TableExistsError(str(staged.name))
            self.tables[staged.table_id] = ModelTable(staged)
            self.names[str(staged.name)] = staged.table_id

    def drop_table(self, name: CatalogTableName) -> None:
        if str(name) not in self.names:
            raise TableNotFoundError(str(name))
        del self.tables[self.names.pop(str(name))]

    def _find(self, table: CatalogTable) -> ModelTable:
        if table.table_id not in self.tables:
            raise CatalogTableMissingError(table.table_id)
        return self.tables[table.table_id]


REFUSALS = {
    "lost before it came": StorageOutcomeUnknownError,
    "answered late": StorageOutcomeUnknownError,
    "busy": VersionTakenError,
    "limit": UnpublishedLimitError,
    "denied": CatalogDeniedError,
}
KINDS = (*REFUSALS, "answer lost", "twice")


class WeatherCatalog:
    """The model with failing calls; calls in `late` take effect later."""

    def __init__(self, model: ModelCatalog, chance: Callable[[], str | None]) -> None:
        self._model, self._chance = model, chance
        self.late: list[Callable[[], None]] = []

    def __getattr__(self, name: str):
        return getattr(self._model, name)

    def list_commits(self, table: CatalogTable) -> RatifiedCommits:
        self._arrive()
        if self._chance() in ("lost before it came", "answer lost", "denied"):
            raise CatalogError(table.table_id)
        return self._model.list_commits(table)

    def report_published(self, table: CatalogTable, version: int) -> None:
        self._do(lambda: self._model.report_published(table, version))

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        self._do(lambda: self._model.ratify(table, proposal, published_version))

    def ratify_group(
        self, commits: Sequence[GroupCommit], unchanged: Mapping[CatalogTableName, int]
    ) -> None:
        given = list(commits)
        self._do(lambda: self._model.ratify_group(given, unchanged))

    def settle(self) -> None:
        while self.late:
            self._arrive()

    def _arrive(self) -> None:
        """Let late calls take effect, unless they are delayed again."""
        if self._chance() is not None:
            return
        late, self.late = self.late, []
        for call in late:
            try:
                call()
            except (CatalogError, VersionTakenError, GroupRefusedError):
                continue

    def _do(self, call: Callable[[], None]) -> None:
        kind = self._chance()
        if kind == "answered late":
            self.late.append(call)
        else:
            self._arrive()
        if kind in REFUSALS:
            raise REFUSALS[kind](kind)
        call()
        if kind == "twice":
            call()
        if kind == "answer lost":
            raise StorageOutcomeUnknownError(kind)


def weather_chance(seed: int, share: float = 0.3) -> Callable[[], str | None]:
    dice = random.Random(seed)  # noqa: S311 - to be repeated by its seed
    return lambda: dice.choice(KINDS) if dice.random() < share else None
