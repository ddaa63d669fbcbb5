"""Winning commits of other writers, including odd ones: in doubt, the transaction conflicts."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile, DeletionVectorDescriptor, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConflictError,
    MetadataChangedException,
    ProtocolChangedException,
)
from engine.log.paths import commit_path
from engine.schema.types import DOUBLE, LONG, STRING, StructField, StructType
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.engine.made_tables import stage

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("p", STRING),
        StructField("d", DOUBLE),
        StructField("Name", STRING),
    )
)
BLIND = CommitInfo(operation="WRITE", is_blind_append=True, read_version=2)
SEEING = CommitInfo(operation="DELETE", is_blind_append=False, read_version=2)


def file(path: str, part: str | None = "a", **fields: Any) -> AddFile:
    given = {"data_change": True, "size": 1, "modification_time": 1, "stats": '{"numRecords":10}'}
    return AddFile(path=path, partition_values={"p": part}, **given | fields)


def removal_of(add: AddFile, **fields: Any) -> RemoveFile:
    given = {"data_change": True, "partition_values": add.partition_values, "size": add.size}
    return RemoveFile(path=add.path, deletion_vector=add.deletion_vector, **given | fields)


def stats_text(low: Any, high: Any, nulls: int = 0, column: str = "id") -> str:
    stats = {"numRecords": 10, "minValues": {column: low}, "maxValues": {column: high}}
    return json.dumps(stats | {"nullCount": {column: nulls}})


A, B = file("a"), file("b", "b")
Current = Callable[[OptimisticTransaction], None]


def table_of(level: str = "WriteSerializable", **properties: str) -> DeltaTable:
    """Return a table whose version 2 has a file in each of two partitions, without row-level concurrency."""
    named = {"delta.isolationLevel": level, "delta.enableDeletionVectors": "false", **properties}
    table = DeltaTable.create(f"memory://foreign/{uuid.uuid4()}", SCHEMA, ["p"], properties=named)
    for add in (A, B):
        txn = table.start_transaction()
        stage(txn, add)
        txn.commit("WRITE")
    return table


def foreign(table: DeltaTable, *actions: Action | CommitInfo) -> None:
    version = table.version() + 1
    table.store.put(commit_path(version), "".join(f"{encode(a)}\n" for a in actions).encode())


def find_conflict_with(
    winners: list[tuple[Action, ...]],
    current: Current,
    level: str = "WriteSerializable",
    operation: str = "UPDATE",
    **properties: str,
) -> type[ConflictError] | None:
    table = table_of(level, **properties)
    txn = DeltaTable.open(table.uri).start_transaction()
    for winner in winners:
        foreign(table, *winner)
    current(txn)
    try:
        txn.commit(operation)
    except ConflictError as conflict:
        return type(conflict)
    return None


def rewrite_act(where: str | None, removed: AddFile = A, new: str = "mine") -> Current:
    """Return an UPDATE that reads by a condition and rewrites one file."""

    def act(txn: OptimisticTransaction) -> None:
        txn.read_where(where)
        stage(txn, removal_of(removed), file(new, removed.partition_values["p"]))

    return act


def insert_act(where: str) -> Current:
    """Return an INSERT that reads first."""

    def act(txn: OptimisticTransaction) -> None:
        txn.read_where(where)
        stage(txn, file("mine", "z"))

    return act


ADDED = file("theirs")
MOVED = msgspec.structs.replace(ADDED, data_change=False)
MASKED = msgspec.structs.replace(A, deletion_vector=DeletionVectorDescriptor("i", "x", 1, 1))
CONFLICTS: dict[str, tuple[list[tuple[Action, ...]], Current, type[ConflictError]]] = {
    "no commitInfo": ([(ADDED,)], rewrite_act("p = 'a'"), ConcurrentAppendException),
    "an empty commitInfo": ([(CommitInfo(), ADDED)], rewrite_act("p = 'a'"), ConcurrentAppendException),
    "blind, it says, yet it removes": (
        [(BLIND, removal_of(B), ADDED)], rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "blind, it says, yet it writes changes": (
        [(BLIND, ADDED, AddCDCFile(path="c", partition_values={}, size=1))],
        rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "blind, it says, yet it masks rows": (
        [(BLIND, MASKED)], rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "files of a change that is none": ([(SEEING, MOVED)], rewrite_act("p = 'a'"), ConcurrentAppendException),
    "a file that is read goes, without a change": (
        [(CommitInfo(operation="Manual Update"), removal_of(A, data_change=False))],
        rewrite_act("p = 'a'"), ConcurrentDeleteReadException,
    ),
    "a remove that does not say its partition": (
        [(SEEING, RemoveFile(path="a", data_change=True))],
        rewrite_act("p = 'a'"), ConcurrentDeleteReadException,
    ),
    "a compaction that leaves no trace": (
        [(CommitInfo(operation="OPTIMIZE"), removal_of(A, data_change=False), MOVED)],
        rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "a file added again, with rows masked": (
        [(CommitInfo(operation="COMPUTE STATS"), msgspec.structs.replace(MASKED, data_change=False))],
        rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "a later winning commit read the blind append": (
        [(BLIND, ADDED), (CommitInfo(operation="DELETE", read_version=3), removal_of(B))],
        rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "a later winning commit does not say what it read": (
        [(BLIND, ADDED), (removal_of(B),)], rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "a later winning commit removes the blind append, and says that it read before it": (
        [(BLIND, ADDED), (SEEING, removal_of(ADDED), file("kept", "q"))],
        rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "rows come into what is replaced": (
        [(SEEING, removal_of(B), ADDED)], rewrite_act("p = 'a'"), ConcurrentAppendException,
    ),
    "a partition that is null": (
        [(SEEING, file("theirs", None))], insert_act("p IS NULL"), ConcurrentAppendException,
    ),
    "a partition that is null as text": (
        [(SEEING, file("theirs", ""))], insert_act("p IS NULL"), ConcurrentAppendException,
    ),
    "a partition that may be null": (
        [(SEEING, file("theirs", None))], insert_act("p <=> NULL"), ConcurrentAppendException,
    ),
    "a partition that is not named": (
        [(SEEING, AddFile(path="t", partition_values={}, size=1, modification_time=1, data_change=True))],
        insert_act("p = 'a'"), ConcurrentAppendException,
    ),
    "text against a number": ([(SEEING, file("theirs", "01"))], insert_act("p = 1"), ConcurrentAppendException),
    "text that is no number": ([(SEEING, file("theirs", "x"))], insert_act("p = 1"), ConcurrentAppendException),
    "a cast that fails": (
        [(SEEING, file("theirs", "x"))], insert_act("CAST(p AS INT) > 3"), ConcurrentAppendException,
    ),
    "a division by zero": (
        [(SEEING, file("theirs", stats=stats_text(5, 5)))], insert_act("1 / (id - 5) > 0"), ConcurrentAppendException,
    ),
    "another spelling of a column": (
        [(SEEING, file("theirs", "c"))], insert_act("P = 'c'"), ConcurrentAppendException,
    ),
    "another spelling of a column with statistics": (
        [(SEEING, file("theirs", stats=stats_text("k", "k", column="Name")))],
        insert_act("name = 'k'"), ConcurrentAppendException,
    ),
    "NaN": (
        [(SEEING, file("theirs", stats=stats_text(1.0, 2.0, column="d")))],
        insert_act("d > 1e300"), ConcurrentAppendException,
    ),
    "minus zero": (
        [(SEEING, file("theirs", stats=stats_text(-0.0, -0.0, column="d")))],
        insert_act("d = 0.0"), ConcurrentAppendException,
    ),
    "a text cut to 32": (
        [(SEEING, file("theirs", stats=stats_text("x" * 32, "x" * 32, column="Name")))],
        insert_act(f"Name = '{'x' * 40}'"), ConcurrentAppendException,
    ),
    "statistics of another type": (
        [(SEEING, file("theirs", stats=stats_text("1", "2")))], insert_act("id = 7"), ConcurrentAppendException,
    ),
    "statistics without a lower bound": (
        [(SEEING, file("theirs", stats='{"numRecords":1,"maxValues":{"id":9}}'))],
        insert_act("id = 7"), ConcurrentAppendException,
    ),
    "statistics whose bounds are the wrong way round": (
        [(SEEING, file("theirs", stats=stats_text(9, 1)))], insert_act("id = 5"), ConcurrentAppendException,
    ),
    "statistics of nulls alone that have bounds": (
        [(SEEING, file("theirs", stats=stats_text(1, 9, nulls=10)))], insert_act("id = 5"), ConcurrentAppendException,
    ),
    "a condition that is another each time": (
        [(SEEING, file("theirs"))], insert_act("rand() > 2"), ConcurrentAppendException,
    ),
    "a partition that is read or another column": (
        [(SEEING, file("theirs", "q", stats=stats_text(1, 9)))], insert_act("p = 'a' OR id > 5"), ConcurrentAppendException,
    ),
    "an unchanged protocol": (
        [(SEEING, Protocol(min_reader_version=1, min_writer_version=2))], rewrite_act("p = 'a'"), ProtocolChangedException,
    ),
    "an unchanged metadata": (
        [(SEEING, Metadata(id="x", schema_string=SCHEMA.to_json(), partition_columns=["p"]))],
        rewrite_act("p = 'a'"), MetadataChangedException,
    ),
    "metadata and data at once": (
        [(BLIND, Metadata(id="x", schema_string=SCHEMA.to_json(), partition_columns=["p"]), file("t", "q"))],
        rewrite_act("p = 'a'"), MetadataChangedException,
    ),
}  # fmt: skip
PASSES: dict[str, tuple[list[tuple[Action, ...]], Current]] = {
    "a blind append": ([(BLIND, ADDED)], rewrite_act("p = 'a'")),
    "a file that was read, with statistics now": (
        [(CommitInfo(operation="COMPUTE STATS"), msgspec.structs.replace(A, data_change=False))],
        rewrite_act("p = 'a'"),
    ),
    "an application alone": ([(SetTransaction(app_id="x", version=1),)], rewrite_act("p = 'a'")),
    "a domain alone": ([(DomainMetadata(domain="d", configuration="", removed=False),)], rewrite_act("p = 'a'")),
    "commitInfo alone": ([(CommitInfo(operation="VACUUM START"),)], rewrite_act(None)),
    "another partition": ([(SEEING, removal_of(B), file("theirs", "b"))], rewrite_act("p = 'a'")),
    "rows that cannot match": ([(SEEING, file("theirs", stats=stats_text(1, 4)))], insert_act("id = 7")),
    "a partition that is null where one is compared": (
        [(SEEING, file("theirs", None))], insert_act("NOT (p = 'a')"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
@pytest.mark.parametrize("name", CONFLICTS)
def test_in_doubt_it_is_a_conflict(name: str, level: str):
    winners, current, error = CONFLICTS[name]
    assert find_conflict_with(winners, current, level) is error


@pytest.mark.parametrize("name", PASSES)
def test_a_commit_of_unread_files_is_no_conflict(name: str):
    winners, current = PASSES[name]
    features = {"delta.feature.domainMetadata": "supported"}
    assert find_conflict_with(winners, current, **features) is None


def test_an_application_that_current_only_read_is_a_conflict_at_any_version():
    def act(txn: OptimisticTransaction) -> None:
        assert txn.read_application("stream") is None
        stage(txn, file("mine"))

    theirs = [(BLIND, SetTransaction(app_id="stream", version=-5))]
    assert (
        find_conflict_with(theirs, act, operation="STREAMING UPDATE")
        is ConcurrentTransactionException
    )


def test_a_domain_that_both_write_is_a_conflict_though_it_says_the_same():
    same = DomainMetadata(domain="d", configuration="{}", removed=True)
    features = {"delta.feature.domainMetadata": "supported"}

    def act(txn: OptimisticTransaction) -> None:
        stage(txn, same)

    assert find_conflict_with([(same,)], act, **features) is ConcurrentTransactionException


@pytest.mark.parametrize("operation", ["RESTORE", "CLONE", "CREATE OR REPLACE TABLE"])
def test_an_operation_that_sets_the_whole_table_conflicts_with_every_file(operation: str):
    def act(txn: OptimisticTransaction) -> None:
        txn.read_whole_table()
        stage(txn, removal_of(A), file("mine"))

    assert (
        find_conflict_with([(BLIND, file("t", "q"))], act, operation=operation)
        is ConcurrentAppendException
    )
    left = find_conflict_with([(SEEING, removal_of(B))], act, operation=operation)
    assert left is ConcurrentDeleteReadException


def test_both_remove_a_file_that_neither_read():
    def act(txn: OptimisticTransaction) -> None:
        stage(txn, removal_of(A, data_change=False), file("mine", data_change=False))

    theirs = [(CommitInfo(operation="OPTIMIZE"), removal_of(A, data_change=False))]
    assert find_conflict_with(theirs, act, operation="OPTIMIZE") is ConcurrentDeleteDeleteException


def _create_masked_table() -> tuple[DeltaTable, AddFile, AddFile, AddFile]:
    """Create a table of three files: without, with a small and with a larger deletion vector."""
    table = DeltaTable.create(f"memory://foreign/{uuid.uuid4()}", SCHEMA)
    plain = AddFile(
        path="a",
        partition_values={},
        size=1,
        modification_time=1,
        data_change=True,
        stats='{"numRecords":10}',
    )
    small, large = (
        msgspec.structs.replace(plain, deletion_vector=write_deletion_vector(table.store, rows))
        for rows in ([0], [0, 1, 2])
    )
    txn = table.start_transaction()
    stage(txn, large)
    txn.commit("WRITE")
    return table, plain, small, large


@pytest.mark.parametrize("info", [(CommitInfo(operation="RESTORE"),), (), (SEEING,)])
def test_rows_that_a_smaller_deletion_vector_brings_back_are_new_rows(info: tuple[Action, ...]):
    table, _, small, large = _create_masked_table()
    txn = DeltaTable.open(table.uri).start_transaction()
    foreign(table, *info, removal_of(large), small)
    txn.read_where(None)
    more = write_deletion_vector(table.store, [0, 1, 2, 3])
    stage(txn, removal_of(large), msgspec.structs.replace(large, deletion_vector=more))
    with pytest.raises(ConflictError):
        txn.commit("DELETE")


def test_a_compaction_never_covers_restored_rows():
    table, plain, _, large = _create_masked_table()
    txn = DeltaTable.open(table.uri).start_transaction()
    foreign(table, removal_of(large), plain)
    output = msgspec.structs.replace(plain, path="b", data_change=False)
    stage(txn, removal_of(large, data_change=False), output)
    with pytest.raises(ConflictError):
        txn.commit("OPTIMIZE")


@pytest.mark.parametrize("says_so", [True, False])
def test_row_ids_continue_after_every_winner_that_gave_some_out(says_so: bool):
    table = DeltaTable.create(
        f"memory://foreign/{uuid.uuid4()}", SCHEMA, properties={"delta.enableRowTracking": "true"}
    )
    txn = table.start_transaction()
    plain = {"partition_values": {}, "size": 1, "modification_time": 1, "data_change": True}
    stage(txn, AddFile(path="mine", stats='{"numRecords":5}', **plain))
    for number, mark in enumerate((9, 99)):
        numbered = AddFile(
            path=f"t{number}",
            stats='{"numRecords":10}',
            base_row_id=mark - 9,
            default_row_commit_version=number + 1,
            **plain,
        )
        configuration = json.dumps({"rowIdHighWaterMark": mark})
        domain = DomainMetadata(
            domain="delta.rowTracking", configuration=configuration, removed=False
        )
        foreign(table, BLIND, numbered, *([domain] if says_so else []))
    txn.commit("WRITE")
    (own,) = table.snapshot().add_files(paths=["mine"])
    assert (own.base_row_id, own.default_row_commit_version) == (100, 3)
