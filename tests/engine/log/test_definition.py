"""The table definition: reading it alone gives the same result as the whole state."""

import uuid

import pytest

from engine.errors import EngineError, MalformedLogError, VersionNotFoundError
from engine.log.replay import load_definition, load_table_state
from engine.storage.memory import MemoryStore
from engine.storage.uri import open_store
from tests.engine.foreign.every_table import FOREIGN_TABLES
from tests.engine.log.made_checkpoints import KINDS, V2, classic, write_one_sidecar
from tests.engine.made_tables import add, metadata, remove, write_commit, write_first
from tests.reference import reference_cases

NEWEST = 6


class CountingStore(MemoryStore):
    """A store that records the opened files."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open_input(self, path: str):
        self.opened.append(path)
        return super().open_input(path)


def _log(checkpoint: int | None = None, kind=None) -> CountingStore:
    store = CountingStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=V2)
    for version in range(1, NEWEST + 1):
        changed = [metadata(configuration={"user.at": str(version)})] if version in {2, 5} else []
        gone = [remove(f"f{version - 1}")] if version > 1 else []
        write_commit(store, version, add(f"f{version}"), *gone, *changed)
    if checkpoint is not None:
        kind(store, load_table_state(store, checkpoint))
    return store


def _definition_of(given) -> tuple:
    return given.version, given.protocol, given.metadata


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checkpoint", [None, 1, 3, NEWEST])
def test_every_version_is_defined_as_its_whole_state_is(checkpoint, kind):
    store = _log(checkpoint, KINDS[kind])
    assert _definition_of(load_definition(store)) == _definition_of(load_table_state(store))
    for version in range(NEWEST + 1):
        expected = _definition_of(load_table_state(store, version))
        assert _definition_of(load_definition(store, version)) == expected


def test_sidecars_and_rows_of_files_are_not_read():
    store = _log(NEWEST, write_one_sidecar)
    store.opened.clear()
    load_definition(store)
    assert not [path for path in store.opened if path.endswith(".parquet")]


def test_an_unreadable_checkpoint_is_skipped():
    store = _log(3, classic)
    path = next(file.path for file in store.list_all() if "checkpoint.parquet" in file.path)
    store.put(path, b"PAR1 torn")
    assert load_definition(store).metadata.configuration == {"user.at": "5"}


def test_an_unreadable_definition_is_refused_like_an_unreadable_state():
    store = _log()
    with pytest.raises(VersionNotFoundError):
        load_definition(store, NEWEST + 9)
    store.put("_delta_log/00000000000000000002.json", b"{not json")
    with pytest.raises(MalformedLogError):
        load_definition(store)


@pytest.mark.parametrize("table", FOREIGN_TABLES.values(), ids=lambda table: table.name)
def test_a_foreign_table_is_defined_as_its_whole_state_is(table, tmp_path):
    store = open_store(str(table.make(tmp_path)))
    assert _try_load(load_definition, store) == _try_load(load_table_state, store)


@pytest.mark.parametrize("expected", reference_cases("tables/expected.jsonl"))
def test_a_real_table_is_defined_as_its_whole_state_is(expected, reference):
    store = open_store(str(reference / "tables" / expected["table"]))
    assert _try_load(load_definition, store) == _try_load(load_table_state, store)


def _try_load(load, store) -> object:
    try:
        return _definition_of(load(store))
    except EngineError as error:
        return type(error)
