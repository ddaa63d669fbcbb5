"""Recorded predicates as proof that a commit cannot have read a file."""

import msgspec

from engine.actions.commit_info import CommitInfo
from engine.conflicts.candidates import ends_exemption
from engine.conflicts.reads import READS_PREDICATE_ONLY
from engine.conflicts.transaction_info import WinningCommit
from engine.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    StructField,
    StructType,
)
from tests.engine.conflicts.overlaps import add, current, remove, winner

SCHEMA = StructType(
    (
        StructField("part", STRING),
        StructField("x", INTEGER),
        StructField("id", LONG),
        StructField("s", STRING),
        StructField("ci", STRING, metadata={"__COLLATIONS": {"ci": "spark.UTF8_LCASE"}}),
        StructField("c", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
        StructField("d", DATE),
        StructField("ts", TIMESTAMP),
        StructField("f", DOUBLE),
        StructField("m", DecimalType(10, 2)),
        StructField("b", BOOLEAN),
    )
)
LOW = {
    "x": 3, "id": 3, "s": "m", "ci": "m", "c": "m", "d": "2020-01-02",
    "ts": "2020-01-02T00:00:00.000Z", "f": 3.0, "m": 3.0,
}  # fmt: skip
STATS = {
    "numRecords": 1,
    "minValues": LOW,
    "maxValues": LOW,
    "nullCount": dict.fromkeys(LOW, 0),
}
APPEND = winner(
    msgspec.structs.replace(add("w"), stats=msgspec.json.encode(STATS).decode()),
    version=6,
    blind=True,
    read=5,
    operation="WRITE",
)
READER = current(add("n"), reads=("part = 'a'",), level="WriteSerializable", schema=SCHEMA)
TAGGED = {READS_PREDICATE_ONLY: "true"}


def ends(predicate: object, *actions: object, operation: str = "DELETE", **info: object) -> bool:
    """Return True if a commit on the append's version ends the append's exemption."""
    said = CommitInfo(
        operation=operation,
        read_version=6,
        operation_parameters={"predicate": predicate},
        is_blind_append=False,
    )
    later = WinningCommit(
        version=7,
        actions=actions or (remove("q"),),  # type: ignore[arg-type]
        info=msgspec.structs.replace(said, **info),
    )
    return ends_exemption(READER, later, APPEND)


def test_a_predicate_that_rules_the_append_out_does_not_end_its_exemption():
    for text in (
        "x = 1", "(x = 1)", "`x` = 1", "x IN (1, 2)", "x BETWEEN 4 AND 9", "NOT (x = 3)", "x <> 3",
        "x <=> 1", "x IS NULL", "1 = x", "id < 3", "s = 'a'", "part = 'b'", "part IS NULL",
        "d = DATE '2020-01-01'", "m > 3.5", "FALSE", "x = 1 AND upper(s) = 'A'",
        "x = 1 AND part = 'a'", "x = 1 OR part = 'b'",
        '["x = 1"]', '["x >= 1","x < 3"]', '["(x#12 = 1)"]', '["(id#12L >= 4)"]',
        '["((x#1 = 1) AND (id#2L = 3))"]', '["x#1 IN (1,2)"]', '["isnotnull(x#1) AND (x#1 = 1)"]',
    ):  # fmt: skip
        assert not ends(text), text


def test_a_predicate_that_may_match_or_is_not_understood_ends_it():
    for text in (
        "x = 3", "x >= 1", "TRUE", "", "[]", '["x = 3"]', "part = 'a'", "x = 1 OR s = 'm'",
        None, 7, "{}", '["x = 1", 7]', "x = ", "y = 1", '"x" = 1', "\"s\" = 'a'", "s = \"a\"",
        "s = 'a\\'b'", '["(s#12 = a)"]', '["(part#12 = b)"]', '["(s#12 = 3)"]',
        '["((s#1 = y) AND (x#2 = 1))"]', '["(d#3 = 2020-01-01)"]', '["(m#1 = 9)"]',
        "ts = TIMESTAMP '2019-01-01 00:00:00'", "ts < '2019-01-01'", "d < '2019-01-01'",
        "date(ts) = DATE '2019-01-01'", "d = current_date()", "x = 1 AND rand() < 2",
        "ci = 'M'", "ci = 'a'", "c = 'a'", "f = 1", "s = 1", "x = 1.0", "x = '1'", "x + 0 = 1",
        "CAST(x AS STRING) = '1'", "t.x = 1", "x = 1 AND x IN (SELECT x FROM t)",
        "EXISTS (SELECT 1 FROM t) AND x = 1", "b", "NOT b",
    ):  # fmt: skip
        assert ends(text), text


def test_only_a_delete_and_a_marked_update_read_no_more_than_their_predicate():
    for operation, tags, has_ended in (
        ("DELETE", None, False),
        ("UPDATE", TAGGED, False),
        ("UPDATE", None, True),  # its assignments may hold a subquery over the table
        ("UPDATE", {READS_PREDICATE_ONLY: "false"}, True),
        ("UPDATE", {"other": "true"}, True),
        ("MERGE", TAGGED, True),
        ("WRITE", TAGGED, True),
        ("RESTORE", TAGGED, True),
        (None, TAGGED, True),
    ):
        assert ends("x = 1", operation=operation, tags=tags) is has_ended, (operation, tags)


def test_a_commit_that_removes_a_file_of_the_append_has_read_it():
    assert ends("x = 1", remove("w"))
    assert ends("x = 1", remove("w"), read_version=5)
    assert not ends("x = 3", read_version=5)
    assert not ends("x = 1", read_version=None)
    assert ends("x = 3", read_version=None)


def test_files_without_statistics_may_be_read_unless_their_partition_says_no():
    append = winner(add("w"), version=6, blind=True, read=5, operation="WRITE")
    for text, has_ended in (("x = 1", True), ("part = 'b'", False)):
        info = CommitInfo(
            operation="DELETE", read_version=6, operation_parameters={"predicate": text}
        )
        later = WinningCommit(version=7, actions=(remove("q"),), info=info)
        assert ends_exemption(READER, later, append) is has_ended
