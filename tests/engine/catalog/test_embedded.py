"""The embedded catalog: commits that it ratifies, and commits that it refuses without a change."""

import itertools
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from engine.actions.codec import encode
from engine.actions.commit_info import CommitInfo
from engine.actions.table import Protocol
from engine.catalog.catalog import (
    CatalogTableName,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
)
from engine.catalog.embedded import EmbeddedCatalog
from engine.catalog.managed_store import ManagedStore
from engine.errors import (
    CatalogError,
    CatalogTableMissingError,
    InvalidCommitError,
    LogGapError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
    VersionTakenError,
)
from engine.log.commits import read_commit
from engine.snapshot.snapshot import load_snapshot
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.catalog.catalogs import NAME
from tests.engine.transaction.tables import SCHEMA, append, data_file

INFO = CommitInfo(timestamp=7, in_commit_timestamp=7, operation="WRITE", txn_id="t")


@pytest.fixture
def catalog(tmp_path) -> EmbeddedCatalog:
    return EmbeddedCatalog(tmp_path / "catalog.db", str(tmp_path / "lake"), unpublished=3)


@pytest.fixture
def table(catalog) -> DeltaTable:
    return DeltaTable.create(NAME, SCHEMA, catalog=catalog)


def _stage(table: DeltaTable, version: int, *actions: object, data: bytes | None = None):
    """Write a staged commit and return its proposal."""
    content = "".join(f"{encode(action)}\n" for action in actions or (INFO, data_file("f")))
    data = content.encode() if data is None else data
    name = f"{version:020}.{uuid.uuid4()}.json"
    commit = RatifiedCommit(version, name, len(data), 7, 7)
    table.store.files.put(f"_delta_log/_staged_commits/{name}", data)
    return ProposedCommit(commit)


@dataclass
class _UnluckyConnection:
    """A connection whose COMMIT succeeds, and fails to say so if its turn has come."""

    connection: sqlite3.Connection
    count: Iterator[int]

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        cursor = self.connection.execute(statement, *values)
        if statement == "COMMIT" and not next(self.count):
            msg = "disk I/O error"
            raise sqlite3.OperationalError(msg)
        return cursor


class _UnluckyCatalog(EmbeddedCatalog):
    """A catalog on a disk that fails in one commit."""

    count: Iterator[int] | None = None

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with super()._connect() as connection:
            yield _UnluckyConnection(connection, self.count) if self.count else connection


def test_a_version_is_ratified_once_after_the_one_before_it(catalog, table):
    one, other = _stage(table, 1), _stage(table, 1)
    catalog.ratify(table.store.table, one, None)
    catalog.ratify(table.store.table, one, None)
    with pytest.raises(VersionTakenError):
        catalog.ratify(table.store.table, other, None)
    with pytest.raises(InvalidCommitError, match="cannot follow version 1"):
        catalog.ratify(table.store.table, _stage(table, 3), None)
    assert catalog.list_commits(table.store.table) == RatifiedCommits(1, (one.commit,))


def test_a_bad_proposal_is_refused_and_nothing_is_ratified(catalog, table):
    good = _stage(table, 1)
    plain = Protocol(min_reader_version=1, min_writer_version=2)
    future = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["catalogManaged", "future"],
        writer_features=["catalogManaged", "future"],
    )
    bad = [
        _stage(table, 1, data=b"not json\n"),
        _stage(table, 1, data=b""),
        _stage(table, 1, data=b'{"commitInfo":{"inCommitTimestamp":7,"txnId":"t"}}\n{"add":'),
        _stage(table, 1, CommitInfo(timestamp=7, in_commit_timestamp=7)),
        _stage(table, 1, data_file("f"), INFO),
        _stage(table, 1, CommitInfo(timestamp=7, in_commit_timestamp=8, txn_id="t")),
        _stage(table, 1, INFO, plain),
        _stage(table, 1, INFO, future),
        ProposedCommit(replace(good.commit, file_name=f"{1:020}.{uuid.uuid4()}.json")),
        ProposedCommit(replace(good.commit, size_bytes=good.commit.size_bytes - 1)),
        ProposedCommit(replace(good.commit, size_bytes=-1)),
        ProposedCommit(replace(good.commit, version=2)),
        *(
            ProposedCommit(replace(good.commit, file_name=name))
            for name in (
                "",
                f"{1:020}.json",
                f"../{good.commit.file_name}",
                f"/etc/{good.commit.file_name}",
                f"_staged_commits/{good.commit.file_name}",
                f"{good.commit.file_name}\n",
                good.commit.file_name.replace("0", "\u0660", 1),
                f"{1:020}.{uuid.uuid4()}.parquet",
            )
        ),
    ]
    for proposal in bad:
        with pytest.raises(InvalidCommitError):
            catalog.ratify(table.store.table, proposal, None)
    assert catalog.list_commits(table.store.table).latest_version == 0
    assert append(table, "a") == 1


def test_an_unknown_id_is_refused(catalog, table):
    proposal = _stage(table, 1)
    forged = replace(table.store.table, table_id=str(uuid.uuid4()))
    staged = catalog.stage_table(CatalogTableName.parse("main.default.later"))
    for other in (forged, staged, replace(forged, table_id="' OR 1=1 --")):
        for call in (
            lambda other=other: catalog.list_commits(other),
            lambda other=other: catalog.report_published(other, 0),
            lambda other=other: catalog.read_versions([other]),
        ):
            with pytest.raises(CatalogTableMissingError):
                call()
    with pytest.raises(CatalogTableMissingError):
        catalog.ratify(forged, proposal, None)
    elsewhere = replace(table.store.table, location=f"memory://{uuid.uuid4()}")
    open_store(elsewhere.location).put(
        proposal.commit.path, table.store.files.read(proposal.commit.path)
    )
    table.store.files.delete(proposal.commit.path)
    with pytest.raises(InvalidCommitError):
        catalog.ratify(elsewhere, proposal, None)


def test_a_table_needs_a_first_version_before_it_has_a_name(catalog):
    staged = catalog.stage_table(CatalogTableName.parse(NAME))
    first = ProposedCommit(RatifiedCommit(0, "", 0, 0, 0))
    with pytest.raises(InvalidCommitError):
        catalog.register_table(staged, first)
    with pytest.raises(TableNotFoundError):
        catalog.resolve_table(staged.name)


def test_a_staged_table_gets_its_name_once(catalog):
    name = CatalogTableName.parse(NAME)
    places = [catalog.stage_table(name) for _ in range(2)]
    first = ProposedCommit(RatifiedCommit(0, "", 0, 0, 0))
    for place in places:
        open_store(place.location).put_if_absent(f"_delta_log/{0:020}.json", b"{}\n")
    catalog.register_table(places[0], first)
    for place, error in zip(places, (TableExistsError, TableExistsError), strict=True):
        with pytest.raises(error):
            catalog.register_table(place, first)
    assert catalog.resolve_table(name).table_id == places[0].table_id


def test_unpublished_commits_are_limited_and_published_names_are_kept_for_a_while(catalog, table):
    managed = table.store.table
    proposals = [_stage(table, version) for version in range(1, 40)]
    for proposal in proposals[:3]:
        catalog.ratify(managed, proposal, None)
    with pytest.raises(UnpublishedLimitError):
        catalog.ratify(managed, proposals[3], None)
    for proposal in proposals[3:]:
        catalog.ratify(managed, proposal, proposal.commit.version - 1)
    answer = catalog.list_commits(managed).check()
    assert answer.latest_version == 39
    assert 15 <= len(answer.commits) <= 25
    with pytest.raises(InvalidCommitError):
        catalog.report_published(managed, 40)


def test_a_dropped_name_can_be_used_again_by_another_table(catalog, table):
    append(table, "a")
    catalog.drop_table(table.store.table.name)
    again = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    assert again.uri != table.uri
    assert again.version() == 0
    with pytest.raises(CatalogTableMissingError):
        append(table, "b")


def test_a_file_that_is_no_catalog_raises_an_error_of_the_catalog(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be read as one" * 99)
    for path in (tmp_path / "notes.txt", tmp_path / "missing" / "catalog.db"):
        with pytest.raises(CatalogError):
            EmbeddedCatalog(path, str(tmp_path))


class Answering:
    """A catalog that returns a given answer."""

    name = "the test"

    def __init__(self, answer: RatifiedCommits) -> None:
        self.answer = answer

    def list_commits(self, _table: object) -> RatifiedCommits:
        return self.answer


def test_an_answer_that_breaks_the_protocol_is_not_read(table):
    append(table, "a")
    append(table, "b")
    one, two = table.store._catalog.list_commits(table.store.table).commits
    for answer in (
        RatifiedCommits(3, (one, two)),
        RatifiedCommits(1, (one, two)),
        RatifiedCommits(2, (one,)),
        RatifiedCommits(2, (one, replace(one, version=2))),
        RatifiedCommits(2, (two, two)),
        RatifiedCommits(2, (one, replace(two, file_name=f"../{two.file_name}"))),
        RatifiedCommits(0, (replace(one, version=0, file_name=f"{0:020}.{uuid.uuid4()}.json"),)),
        RatifiedCommits(2, (one, replace(two, size_bytes=-5))),
    ):
        store = ManagedStore(table.store.files, Answering(answer), table.store.table)
        with pytest.raises(InvalidCommitError):
            [*store.list_from("_delta_log", "")]
    vanished = ManagedStore(table.store.files, Answering(RatifiedCommits(5, ())), table.store.table)
    with pytest.raises(LogGapError, match="version 5"):
        load_snapshot(vanished)
    unsorted = Answering(RatifiedCommits(2, (two, one)))
    store = ManagedStore(table.store.files, unsorted, table.store.table)
    names = [file.name for file in store.list_from("_delta_log", f"{1:020}.json")]
    assert f"{2:020}.json" in names


def test_a_commit_of_the_catalog_that_fails_after_it_is_written_loses_and_repeats_nothing(tmp_path):
    catalog = _UnluckyCatalog(tmp_path / "catalog.db", str(tmp_path / "lake"))
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog)
    for number in range(8):
        catalog.count = itertools.count(-number)
        append(table, f"f{number}", txn_id=f"f{number}")
        catalog.count = None
        again = DeltaTable.open(NAME, catalog=catalog)
        versions = range(1, again.version() + 1)
        ids = [read_commit(again.store, version).commit_info.txn_id for version in versions]
        assert f"f{number}" in ids
        assert len(ids) == len(set(ids))
        assert {add.path for add in again.snapshot().add_files()} == set(ids)
