import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.paths import (
    LogFileKind,
    checkpoint_path,
    checksum_path,
    commit_path,
    compaction_path,
    parse_name,
    v2_checkpoint_path,
)

VERSIONS = st.integers(0, 10**20 - 1)


@given(VERSIONS, VERSIONS)
def test_a_path_is_understood_as_what_it_was_made_for(version: int, other: int):
    start, end = sorted((version, other))
    made = {
        commit_path(version): (LogFileKind.COMMIT, version, version),
        checkpoint_path(version): (LogFileKind.CHECKPOINT, version, version),
        v2_checkpoint_path(version, "json"): (LogFileKind.CHECKPOINT_V2, version, version),
        v2_checkpoint_path(version): (LogFileKind.CHECKPOINT_V2, version, version),
        checksum_path(version): (LogFileKind.CHECKSUM, version, version),
        compaction_path(start, end): (LogFileKind.COMPACTED, start, end),
    }
    for path, expected in made.items():
        name = parse_name(path.rpartition("/")[2])
        assert name is not None
        assert (name.kind, name.version, name.end_version) == expected


def test_a_part_knows_its_number():
    name = parse_name("00000000000000000007.checkpoint.0000000002.0000000003.parquet")
    assert name is not None
    assert (name.kind, name.part, name.parts) == (LogFileKind.CHECKPOINT_PART, 2, 3)


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "0.json",
        "00000000000000000001.json.tmp",
        ".00000000000000000001.json.crc",
        "00000000000000000001.checkpoint.parquet.crc",
        "0000000000000000000\u0661.json",
        "00000000000000000001.json\n",
        "00000000000000000001.checkpoint.not-a-uuid.json",
        "",
    ],
)
def test_other_files_are_not_the_logs(name: str):
    assert parse_name(name) is None


@given(st.text(max_size=60))
def test_any_name_is_understood_or_left_alone(name: str):
    parse_name(name)
