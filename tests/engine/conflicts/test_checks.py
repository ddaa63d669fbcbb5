"""The table of checks: each has cases that conflict and cases that do not."""

from dataclasses import dataclass, replace

import pytest

from engine.actions.files import AddCDCFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.conflicts.candidates import exempt_after
from engine.conflicts.decide.checker import CHECKS, ConflictCheck, find_conflict
from engine.conflicts.overlap import Overlap
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from tests.engine.conflicts.overlaps import add, current, remove, vector, winner

METADATA = Metadata(id="m", schema_string="{}")
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
WS = "WriteSerializable"
SNAPSHOT = "SnapshotIsolation"


def _domain(name: str) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration="{}", removed=False)


def _app(name: str) -> SetTransaction:
    return SetTransaction(app_id=name, version=1)


@dataclass(frozen=True)
class Row:
    """A case of `check`, which must find a conflict, or must find none if `conflicts` is false."""

    claim: str
    check: str
    current: CurrentTransaction
    winner: WinningCommit
    conflicts: bool
    exempted: tuple[WinningCommit, ...] = ()

    @property
    def overlap(self) -> Overlap:
        return Overlap(self.current, self.winner, self.exempted)


READS_A = current(add("n"), reads=("part = 'a'",))
READS_A_WS = current(add("n"), reads=("part = 'a'",), level=WS)
APPEND = winner(add("w"), version=6, blind=True, read=5, operation="WRITE")
BLIND = current(add("n"))

ROWS = (
    Row(
        "a protocol of the winning commit stops anyone",
        "protocol_changed",
        BLIND,
        winner(PROTOCOL),
        True,
    ),
    Row(
        "whoever creates a table second loses",
        "protocol_changed",
        current(add("n"), read_version=-1),
        winner(add("w"), version=0),
        True,
    ),
    Row("an append changes no protocol", "protocol_changed", BLIND, APPEND, False),
    Row(
        "metadata of the winning commit stops anyone",
        "metadata_changed",
        BLIND,
        winner(METADATA),
        True,
    ),
    Row("a delete changes no metadata", "metadata_changed", BLIND, winner(remove("r")), False),
    Row(
        "one domain, two writers",
        "domain_written",
        current(_domain("d")),
        winner(_domain("d")),
        True,
    ),
    Row(
        "a domain that RESTORE leaves as it found it",
        "domain_written",
        current(operation="RESTORE"),
        winner(_domain("d")),
        True,
    ),
    Row(
        "a high-water mark that RESTORE leaves as it found it",
        "domain_written",
        current(operation="RESTORE"),
        winner(_domain("delta.rowTracking")),
        False,
    ),
    Row(
        "two domains",
        "domain_written",
        current(_domain("d")),
        winner(_domain("e")),
        False,
    ),
    Row(
        "row tracking's domain is reconciled",
        "domain_written",
        current(_domain("delta.rowTracking")),
        winner(_domain("delta.rowTracking")),
        False,
    ),
    Row(
        "an application id that current read",
        "application_committed",
        current(read_app_ids=frozenset({"q"})),
        winner(_app("q")),
        True,
    ),
    Row(
        "an application id that current writes",
        "application_committed",
        current(_app("q")),
        winner(_app("q")),
        True,
    ),
    Row(
        "two application ids", "application_committed", current(_app("p")), winner(_app("q")), False
    ),
    Row("an append into what was read", "data_added", READS_A, APPEND, True),
    Row("an append into another partition", "data_added", READS_A, winner(add("w", "b")), False),
    Row("a blind append is ordered later", "data_added", READS_A_WS, APPEND, False),
    Row("a missing mark means not blind", "data_added", READS_A_WS, winner(add("w")), True),
    Row(
        "a mark beside a remove is not believed",
        "data_added",
        READS_A_WS,
        winner(add("w"), remove("r"), blind=True),
        True,
    ),
    Row(
        "a mark beside change files is not believed",
        "data_added",
        READS_A_WS,
        winner(add("w"), AddCDCFile(path="c", partition_values={}, size=1), blind=True),
        True,
    ),
    Row(
        "a mark beside a deletion vector is not believed",
        "data_added",
        READS_A_WS,
        winner(add("w", deletion_vector=vector("v")), blind=True),
        True,
    ),
    Row("a blind append reads nothing", "data_added", BLIND, winner(add("w")), False),
    Row(
        "a file that was read, stated again as row ids are filled in",
        "data_added",
        replace(READS_A, read_files=frozenset({"w"})),
        winner(add("w", data_change=False, base_row_id=0)),
        False,
    ),
    Row(
        "a file stated again that current did not read",
        "data_added",
        replace(READS_A, read_files=frozenset({"other"})),
        winner(add("w", data_change=False, base_row_id=0)),
        True,
    ),
    Row(
        "a file that an overwrite of the whole table removes, stated again",
        "data_added",
        current(remove("w"), read_whole_table=True),
        winner(add("w", data_change=False, base_row_id=0)),
        False,
    ),
    Row(
        "a file that an overwrite removes, stated under another vector",
        "data_added",
        current(remove("w"), read_whole_table=True),
        winner(add("w", data_change=False, deletion_vector=vector("v"))),
        True,
    ),
    Row(
        "a file that was read, added again with data",
        "data_added",
        replace(READS_A, read_files=frozenset({"w"})),
        winner(add("w")),
        True,
    ),
    Row(
        "a file that was read, under another vector",
        "data_added",
        replace(READS_A, read_files=frozenset({"w"})),
        winner(remove("w"), add("w", data_change=False, deletion_vector=vector("v"))),
        True,
    ),
    Row(
        "a file that was read, brought back by RESTORE as if it had not been away",
        "data_added",
        replace(READS_A, read_files=frozenset({"w"})),
        winner(add("w", data_change=False), operation="RESTORE"),
        True,
    ),
    Row(
        "a restored file that was read, stated again",
        "data_added",
        current(operation="RESTORE", read_files=frozenset({"w"})),
        winner(add("w", data_change=False)),
        True,
    ),
    Row(
        "statistics rule a file out",
        "data_added",
        current(add("n"), reads=("x = 5",)),
        winner(add("w", low=6, high=9)),
        False,
    ),
    Row(
        "statistics that reach the condition do not",
        "data_added",
        current(add("n"), reads=("x = 5",)),
        winner(add("w", low=5, high=9)),
        True,
    ),
    Row(
        "an OR of partition and data is a whole read",
        "data_added",
        current(add("n"), reads=("part = 'a' OR x > 3",)),
        winner(add("w", "b")),
        True,
    ),
    Row(
        "several reads are a union",
        "data_added",
        current(add("n"), reads=("part = 'a'", "part = 'b'")),
        winner(add("w", "b")),
        True,
    ),
    Row("an empty condition reads all", "data_added", current(reads=("",)), APPEND, True),
    Row(
        "a null partition matches IS NULL",
        "data_added",
        current(reads=("part IS NULL",)),
        winner(add("w", None)),
        True,
    ),
    Row(
        "an empty text is null too",
        "data_added",
        current(reads=("part IS NULL",)),
        winner(add("w", "")),
        True,
    ),
    Row(
        "null equals nothing",
        "data_added",
        current(reads=("part = 'a'",)),
        winner(add("w", None)),
        False,
    ),
    Row(
        "rand() counts as TRUE",
        "data_added",
        current(reads=("rand() < 0.5",)),
        winner(add("w")),
        True,
    ),
    Row(
        "whole table reads see every partition",
        "data_added",
        current(read_whole_table=True),
        winner(add("w", "z")),
        True,
    ),
    Row(
        "what changes metadata cannot come first",
        "data_added",
        current(METADATA, reads=("part = 'a'",), level=WS),
        APPEND,
        True,
    ),
    Row(
        "at snapshot isolation added files do not matter",
        "data_added",
        current(reads=("part = 'a'",), level=SNAPSHOT),
        winner(add("w")),
        False,
    ),
    Row(
        "a rewrite that nobody traced is a candidate",
        "data_added",
        READS_A_WS,
        winner(add("w", data_change=False)),
        True,
    ),
    Row(
        "a later reader ends an append's exemption",
        "data_added",
        READS_A_WS,
        winner(add("u", "b"), remove("q"), version=7, read=6, operation="UPDATE"),
        True,
        (APPEND,),
    ),
    Row(
        "a later writer of unknown read version ends it",
        "data_added",
        READS_A_WS,
        winner(remove("q"), version=7),
        True,
        (APPEND,),
    ),
    Row(
        "a later writer that read before does not end it",
        "data_added",
        READS_A_WS,
        winner(remove("q"), version=7, read=5),
        False,
        (APPEND,),
    ),
    Row(
        "a later append does not end it",
        "data_added",
        READS_A_WS,
        winner(add("v"), version=7, read=6, blind=True),
        False,
        (APPEND,),
    ),
    Row(
        "a compaction does not end it",
        "data_added",
        READS_A_WS,
        winner(remove("q", data_change=False), version=7, read=6, operation="OPTIMIZE"),
        False,
        (APPEND,),
    ),
    Row(
        "the append is tested as it was written",
        "data_added",
        current(reads=("part = 'b'",), level=WS),
        winner(remove("q"), version=7, read=6),
        False,
        (APPEND,),
    ),
    Row(
        "RESTORE meets every added file",
        "data_added",
        current(remove("r"), operation="RESTORE", level=WS),
        APPEND,
        True,
    ),
    Row(
        "a file that was read is removed",
        "read_file_removed",
        current(read_files=frozenset({"r"})),
        winner(remove("r")),
        True,
    ),
    Row(
        "a file that was read is compacted, untraced",
        "read_file_removed",
        current(read_files=frozenset({"r"}), level=SNAPSHOT),
        winner(remove("r", data_change=False)),
        True,
    ),
    Row(
        "whole table reads meet any remove",
        "read_file_removed",
        current(read_whole_table=True),
        winner(remove("unknown")),
        True,
    ),
    Row(
        "RESTORE meets any remove",
        "read_file_removed",
        current(operation="RESTORE"),
        winner(remove("r")),
        True,
    ),
    Row(
        "another file is removed",
        "read_file_removed",
        current(read_files=frozenset({"r"})),
        winner(remove("s")),
        False,
    ),
    Row(
        "two compactions of one file",
        "removed_file_removed",
        current(remove("r", data_change=False), level=SNAPSHOT, operation="OPTIMIZE"),
        winner(remove("r", data_change=False)),
        True,
    ),
    Row(
        "the same path under another deletion vector is the same file",
        "removed_file_removed",
        current(remove("r", deletion_vector=vector("v"))),
        winner(remove("r")),
        True,
    ),
    Row(
        "removes of two files",
        "removed_file_removed",
        current(remove("r")),
        winner(remove("s")),
        False,
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.check}: {row.claim}")
def test_row(row: Row):
    conflict = find_conflict(row.overlap)
    if row.conflicts:
        assert conflict is not None
        assert conflict.conflict.rule == row.check
        assert isinstance(conflict, next(c.error for c in CHECKS if c.rule == row.check))
    else:
        assert conflict is None


def test_every_check_owns_a_row_that_conflicts_and_one_that_does_not():
    owned = {(row.check, row.conflicts) for row in ROWS}
    assert owned == {(check.rule, outcome) for check in CHECKS for outcome in (True, False)}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.rule)
def test_a_check_without_a_body_is_caught(check: ConflictCheck):
    silenced = tuple(replace(c, find=lambda _: None) if c is check else c for c in CHECKS)
    lost = [
        row
        for row in ROWS
        if row.conflicts
        and (
            (lost_to := find_conflict(row.overlap, silenced)) is None
            or lost_to.conflict.rule != row.check
        )
    ]
    assert lost


def test_checks_stand_in_deltas_order():
    everything = winner(
        PROTOCOL, METADATA, _domain("d"), _app("q"), add("w"), remove("r"), remove("s")
    )
    now = current(
        _domain("d"),
        _app("q"),
        remove("s"),
        reads=("part = 'a'",),
        read_files=frozenset({"r"}),
    )
    left = list(CHECKS)
    while left:
        conflict = find_conflict(Overlap(now, everything), tuple(left))
        assert conflict is not None
        assert conflict.conflict.rule == left.pop(0).rule


@pytest.mark.parametrize(
    ("met", "left"),
    [
        (winner(add("n"), version=7, blind=True), [6, 7]),
        (winner(remove("q"), version=7, read=6), []),
        (winner(remove("q"), version=7, read=5), [6]),
        (winner(remove("q", data_change=False), version=7, read=6, operation="OPTIMIZE"), [6]),
    ],
    ids=["another append", "a reader", "one that read before", "a compaction"],
)
def test_an_append_is_tested_once_however_many_writers_come_after_it(met, left):
    assert [commit.version for commit in exempt_after(READS_A_WS, met, (APPEND,))] == left


def test_an_append_that_reads_an_exempt_one_is_named_in_the_message():
    row = next(row for row in ROWS if row.claim == "a later reader ends an append's exemption")
    conflict = find_conflict(row.overlap)
    assert conflict is not None
    assert "version 6" in str(conflict)
    assert conflict.conflict.files[0].role == "added by version 6"


def test_the_message_names_partitions_and_how_to_avoid_it():
    conflict = find_conflict(Overlap(READS_A, winner(add("w"), version=7)))
    assert conflict is not None
    assert str(conflict) == (
        "Version 7 (DELETE) of orders added 1 file in part=a that this UPDATE, reading version 5,"
        " should have seen. Nothing was written. Retry it, or cluster the table by its"
        " partition columns instead (`CLUSTER BY`)."
    ), "its condition names the partition already"
    assert conflict.conflict.subclass == "WITH_PARTITION_HINT"


def test_a_message_separates_thousands():
    adds = tuple(add(f"w{number}") for number in range(1200))
    conflict = find_conflict(Overlap(READS_A, winner(*adds, version=7)))
    assert conflict is not None
    assert "added 1,200 files" in str(conflict)


def test_of_those_that_lose_version_0_only_a_create_cannot_be_retried():
    first = winner(PROTOCOL, METADATA, add("w"), version=0, operation="WRITE")
    for operation, can_retry in (
        ("WRITE", True),
        ("STREAMING UPDATE", True),
        ("CREATE OR REPLACE TABLE", True),
        ("CREATE TABLE", False),
        ("CREATE TABLE AS SELECT", False),
    ):
        lost = find_conflict(
            Overlap(current(add("n"), read_version=-1, operation=operation), first)
        )
        assert lost is not None
        assert lost.conflict.can_retry is can_retry, operation
        assert ("A retry cannot succeed" in str(lost)) is not can_retry
