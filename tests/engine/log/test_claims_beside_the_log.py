"""Files beside the commits and duplicate JSON keys may be false, but never cost a row."""

import json

import pytest

from engine.actions.codec import decode
from engine.log.paths import checkpoint_path
from engine.snapshot.snapshot import load_snapshot
from engine.storage.uri import open_store
from tests.engine.lying_logs import VECTORS, execute, ids, inline_vector, make

HINTS: list[dict | str] = [
    {"version": 4, "size": 0},
    {"version": 4, "size": -7, "sizeInBytes": 1, "numOfAddFiles": 0},
    {"version": 4, "size": 10**30, "sizeInBytes": -1, "numOfAddFiles": 10**9},
    {"version": 4, "parts": 3},
    {"version": 4, "parts": 0},
    {"version": 4, "parts": "x", "checksum": "0" * 32},
    {"version": 4, "checkpointSchema": {"type": "struct", "fields": []}},
    {"version": 4, "v2Checkpoint": {"path": "gone.parquet", "sidecarFiles": [{"path": "gone"}]}},
    {"version": 4, "v2Checkpoint": {"path": f"{2:020}.checkpoint.parquet"}},
    {"version": 2, "size": 3},
    {"version": 3},
    {"version": 5},
    {"version": 99, "parts": 2},
    {"version": 2**63},
    {"version": -1},
    {"version": 4.5},
    {"version": True},
    {"version": None},
    '{"version":99,"version":4}',
    '{"version":4,"version":99}',
    "[4]",
    "4",
    "\x00",
]
CHECKSUMS: list[dict | str] = [
    {"numFiles": 0, "tableSizeBytes": 0, "allFiles": []},
    {"numFiles": 1, "allFiles": [{"path": "gone", "size": 1}], "setTransactions": []},
    {"metadata": {"id": "other", "schemaString": '{"type":"struct","fields":[]}'}},
    {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}},
    {"domainMetadata": [{"domain": "delta.rowTracking", "configuration": "{}", "removed": False}]},
    {"inCommitTimestampOpt": 2**63, "txnId": "x"},
    "{",
]


@pytest.fixture
def root(tmp_path):
    make(tmp_path, configuration={**VECTORS, "delta.checkpointInterval": "2"})
    for key in range(1, 6):
        execute(tmp_path, f"INSERT INTO t VALUES ({key}, 'x')")  # noqa: S608 - rows from here
    return tmp_path


def _text(claim: dict | str) -> str:
    return claim if isinstance(claim, str) else json.dumps(claim)


def _check_every_version(root) -> None:
    store = open_store(str(root))
    for version in range(6):
        assert load_snapshot(store, version).file_count == version, version
    assert ids(root) == [1, 2, 3, 4, 5]


def test_no_hint_of_a_checkpoint_changes_a_version(root):
    assert (root / checkpoint_path(4)).exists()
    for hint in HINTS:
        (root / "_delta_log" / "_last_checkpoint").write_text(_text(hint))
        _check_every_version(root)
    execute(root, "DELETE FROM t WHERE id = 3")
    assert ids(root) == [1, 2, 4, 5]


def test_no_hint_restores_a_missing_checkpoint(root):
    (root / checkpoint_path(4)).unlink()
    for hint in HINTS:
        (root / "_delta_log" / "_last_checkpoint").write_text(_text(hint))
        _check_every_version(root)


def test_no_checksum_changes_a_version(root):
    for claim in CHECKSUMS:
        for version in range(6):
            (root / "_delta_log" / f"{version:020}.crc").write_text(_text(claim))
        _check_every_version(root)
        before = ids(root)
        execute(root, "UPDATE t SET v = 'y' WHERE id = 3")
        assert ids(root) == before
        (root / "_delta_log" / f"{6:020}.json").unlink()
        for beside in (root / "_delta_log").glob(f"{6:020}.*"):
            beside.unlink()


def test_of_a_repeated_key_the_last_counts_on_every_path():
    """Delta's own reader does the same; a line is decoded in one pass, or in several if it is unusual."""
    file = {
        "path": "a",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    vectors = [json.dumps(inline_vector(rows)) for rows in ([0], [1])]
    twice = {
        "path": ('"b"', '"c"'),
        "size": ("2", "3"),
        "dataChange": ("true", "false"),
        "partitionValues": ('{"p":"1"}', '{"p":"2","p":"3"}'),
        "deletionVector": tuple(vectors),
        "baseRowId": ("1", "2"),
    }
    for key, (first, last) in twice.items():
        for kind in ("add", "remove"):
            body = json.dumps({**file, "deletionTimestamp": 1})[:-1]
            doubled = f'{body},"{key}":{first},"{key}":{last}}}'
            once = f'{body},"{key}":{last}}}'
            usual = decode(f'{{"{kind}":{once}}}')
            for line in (
                f'{{"{kind}":{doubled}}}',
                f' {{ "{kind}" : {doubled}}}',
                f'{{"{kind}":{once},"{kind}":{doubled}}}',
                f'{{"unknown":null,"{kind}":{doubled}}}',
            ):
                assert decode(line) == usual, (key, line[:40])
