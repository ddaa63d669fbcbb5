from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import RemoveFile
from engine.operations.vacuum_plan import NeededFiles, find_unneeded, paths_of
from engine.storage.base import FileStatus
from engine.storage.memory import MemoryStore
from engine.storage.presence import StoreListing

OLD, KEEP_FROM, NEW = 1_000, 10_000, 20_000
NOTHING = NeededFiles(frozenset(), frozenset())

_part = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=12
).filter(lambda text: text not in {".", ".."})
_paths = st.lists(st.lists(_part, min_size=1, max_size=3).map("/".join), unique=True, max_size=12)


def _find_unneeded(paths, needs=NOTHING, modified_ms=OLD, spare_from_ms=None):
    known = {path: FileStatus(path, 1, modified_ms) for path in paths}
    listing = StoreListing(MemoryStore("memory://t"), known.keys(), known)
    return [file.path for file in find_unneeded(listing, needs, KEEP_FROM, spare_from_ms)]


@given(_paths, st.data())
def test_files_that_the_log_names_stay_whatever_their_name(paths, data):
    live = frozenset(path for path in paths if data.draw(st.booleans()))
    needs = NeededFiles(live, frozenset())
    assert not live & set(_find_unneeded(paths, needs))


@given(_paths)
def test_a_path_of_the_log_means_the_file_it_was_written_for(paths):
    for path in paths:
        remove = RemoveFile(path=quote(path), data_change=True)
        assert list(paths_of("/root/t", remove)) == [path]


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/00000000000000000000.json",
        "_delta_log/_sidecars/x.parquet",
        "_elsewhere/x.parquet",
        ".hidden/x.parquet",
        "_x.parquet",
        ".x.crc",
    ],
)
def test_vacuum_leaves_files_alone_that_are_not_the_tables(path):
    assert _find_unneeded([path]) == []


@pytest.mark.parametrize(
    "path",
    [
        "x.parquet",
        "_p=1/x.parquet",
        "p=_a/.q=1/x.parquet",
        "_change_data/cdc-0.parquet",
        "_change_data/p=1/cdc-0.parquet",
        "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "_committed_123",
        ".x.parquet.0123456789abcdef0123456789abcdef.tmp",
    ],
)
def test_leftovers_of_every_kind_go(path):
    assert _find_unneeded([path]) == [path]


def test_young_files_and_those_of_running_jobs_stay():
    assert _find_unneeded(["x.parquet"], modified_ms=NEW) == []
    assert _find_unneeded(["x.parquet"], spare_from_ms=OLD) == []
    assert _find_unneeded(["x.parquet"], spare_from_ms=OLD + 1) == ["x.parquet"]


def test_a_job_that_has_begun_and_not_ended_keeps_its_files():
    begun = ["_started_7", "part-0-tid-7-a.parquet", "part-0-tid-8-a.parquet"]
    assert _find_unneeded(begun) == ["part-0-tid-8-a.parquet"]
    assert set(_find_unneeded([*begun, "_committed_7"])) == {*begun, "_committed_7"}


def test_tables_inside_the_table_keep_their_files():
    paths = ["in/_delta_log/0.json", "in/x.parquet", "in/p=1/y.parquet", "inside.parquet"]
    assert _find_unneeded(paths) == ["inside.parquet"]


def test_paths_of_another_place_name_no_file_here():
    for path in ("../x.parquet", "/elsewhere/x.parquet", "s3://bucket/x", "%2e%2e/x"):
        assert list(paths_of("/root/t", RemoveFile(path=path, data_change=True))) == []
