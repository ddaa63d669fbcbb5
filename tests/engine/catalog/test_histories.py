"""Histories of writers on a managed table, compared with the model catalog."""

import random

import pytest

from engine.errors import CatalogError, CommitOutcomeUnknownError, EngineError
from engine.log.commits import read_commit
from engine.table import DeltaTable
from engine.transaction.pending_commit import CommitLimits
from tests.engine.catalog.catalogs import NAME, ModelCatalog, WeatherCatalog, weather_chance
from tests.engine.transaction.tables import SCHEMA, FakeClock, append
from tests.shares import share

LIMITS = CommitLimits(unknown_outcomes=3)


def _run_history(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - to be repeated by its seed
    model = ModelCatalog(unpublished=dice.choice([2, 10]), remembers=dice.choice([0, 3]))
    made = DeltaTable.create(NAME, SCHEMA, catalog=model)
    weather = WeatherCatalog(model, weather_chance(seed))
    writers = []
    for _ in range(3):
        writer = DeltaTable.open(NAME, catalog=model, clock=FakeClock())
        writer.store._catalog, writer.limits = weather, LIMITS
        writers.append(writer)
    landed, unknown, refused = {}, set(), set()
    for number in range(8):
        path, writer = f"f{number}", dice.choice(writers)
        try:
            landed[path] = append(writer, path, txn_id=path)
        except CommitOutcomeUnknownError:
            unknown.add(path)
        except CatalogError:
            refused.add(path)
    weather.settle()

    managed = model.tables[made.store.table.table_id]
    assert [*managed.ratified] == [*range(1, managed.latest + 1)]
    table = DeltaTable.open(NAME, catalog=model)
    commits = [read_commit(table.store, version) for version in range(1, table.version() + 1)]
    ids = [commit.commit_info.txn_id for commit in commits]
    assert len(ids) == len(set(ids)), "no transaction is committed twice"
    assert {path: ids.index(path) + 1 for path in landed} == landed
    assert set(ids) <= landed.keys() | unknown, "what was refused is not committed later"
    assert {add.path for add in table.snapshot().add_files()} == set(ids)
    stamps = [commit.commit_info.in_commit_timestamp for commit in commits]
    assert stamps == sorted(set(stamps))
    _check_files(table, managed, unknown)


def _check_files(table: DeltaTable, managed, unknown: set[str]) -> None:
    """Check that each ratified commit has its file, and that the published copy is identical."""
    files = table.store.files
    staged = {file.name for file in files.list_all("_delta_log/_staged_commits")}
    ratified = {commit.file_name for commit in managed.ratified.values()}
    assert ratified <= staged
    if not unknown:
        assert len(staged - ratified) <= 1, "rejected files are deleted; a last doubt may remain"
    for version, commit in managed.ratified.items():
        path = f"_delta_log/{version:020}.json"
        if files.stat(path) is not None:
            assert files.read(path) == files.read(commit.path)


@pytest.mark.timeout(900)
def test_versions_are_ratified_once_and_nothing_is_lost_in_any_weather():
    for seed in share(10, range(3000)):
        try:
            _run_history(seed)
        except (AssertionError, EngineError) as error:
            error.add_note(f"history {seed}")
            raise
