"""Versions are contiguous, and each is ratified once: repeated, out of order and concurrently."""

import random
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.db import connections

from engine.errors import (
    CatalogError,
    CatalogTableMissingError,
    GroupRefusedError,
    InvalidCommitError,
    MalformedLogError,
    RequestError,
    UnpublishedLimitError,
    VersionTakenError,
)
from lakeui.catalog.managed_tables import drop_table, open_location
from lakeui.conflicts.unregistration import unregister_table
from lakeui.managed.models import CommitAttempt, RatifiedVersion
from lakeui.managed.publication import delete_staged_file, publish_commits
from lakeui.managed.ratification import (
    CommitOrigin,
    GroupProposal,
    check_proposal,
    check_published,
    list_commits,
    note_published,
    ratify,
    ratify_group,
)
from tests.lakeui.managed import staged
from tests.lakeui.managed.staged import (
    PROTOCOL,
    add,
    lines,
    make_managed,
    propose,
    set_property,
    stage,
)


@pytest.fixture
def user(db):
    return User.objects.create_user("ann")


@pytest.fixture
def table(user):
    return make_managed(user)


@pytest.fixture
def store(table):
    return open_location(table)


def versions(table):
    return [*RatifiedVersion.objects.filter(table=table).values_list("version", flat=True)][::-1]


def test_a_version_is_ratified_once_and_a_repeated_proposal_gets_the_same_answer(table, store):
    commit = stage(store, 1)
    assert propose(table, commit)
    assert not propose(table, commit)
    publish_commits(table, store)
    assert not propose(table, commit)
    answer = list_commits(table).check()
    assert (answer.latest_version, answer.commits) == (1, (commit,))


def test_a_second_commit_of_a_version_is_refused_and_on_record(table, store, user):
    propose(table, stage(store, 1))
    loser = stage(store, 1)
    for _ in range(3):
        with pytest.raises(VersionTakenError):
            propose(table, loser, user, "sail/1")
    attempt = CommitAttempt.objects.get()
    assert attempt.commit == loser
    assert (attempt.user, attempt.client, attempt.latest_version) == (user, "sail/1", 1)
    assert attempt.tries == 3


def test_a_refused_commit_stays_refused_once_its_file_is_deleted(table, store):
    propose(table, stage(store, 1))
    loser = stage(store, 1)
    with pytest.raises(VersionTakenError):
        propose(table, loser)
    assert delete_staged_file(CommitAttempt.objects.get(), store)
    assert store.stat(loser.path) is None
    with pytest.raises(VersionTakenError):
        propose(table, loser)


def test_a_version_is_never_deleted_as_a_loser(table, store, user):
    commit = stage(store, 1)
    propose(table, commit)
    for name in (commit.file_name, commit.file_name.upper()):
        attempt = CommitAttempt.objects.create(
            table=table, version=1, file_name=name, size_bytes=1, modified_ms=1, timestamp_ms=1,
            latest_version=1,
        )  # fmt: skip
        assert not delete_staged_file(attempt, store)
    assert store.stat(commit.path) is not None


def test_another_client_with_the_same_file_is_refused(table, store, user):
    commit = stage(store, 1)
    propose(table, commit, user)
    other = User.objects.create_user("bob")
    with pytest.raises(VersionTakenError):
        propose(table, commit, other)
    assert not delete_staged_file(CommitAttempt.objects.get(), store)


BROKEN = [
    ("gap", lambda store: stage(store, 2)),
    (
        "outside",
        lambda store: replace(stage(store, 1), file_name="../" + stage(store, 1).file_name),
    ),
    ("pattern", lambda store: stage(store, 1, name=f"{1:020}.json")),
    ("of another version", lambda store: stage(store, 1, name=stage(store, 2).file_name)),
    ("missing", lambda store: stage_missing(store)),
    ("truncated", lambda store: stage(store, 1, size_bytes=1_000)),
    ("not JSON", lambda store: stage(store, 1, b"{\n")),
    ("empty", lambda store: stage(store, 1, b"")),
    ("without commit info", lambda store: stage(store, 1, b'{"txn":{"appId":"a","version":1}}\n')),
    ("another time", lambda store: stage(store, 1, timestamp_ms=5)),
    ("no later time", lambda store: stage_early(store)),
    (
        "unsupported protocol",
        lambda store: stage(store, 1, lines(1, {"protocol": add_feature("unheardOf")})),
    ),
    ("no longer managed", lambda store: stage(store, 1, lines(1, {"protocol": plain_protocol()}))),
    (
        "forged id",
        lambda store: stage(
            store, 1, set_property("8a0f2f4e-0000-4000-8000-000000000000", "a", "b")
        ),
    ),
]


def stage_missing(store):
    commit = stage(store, 1)
    store.delete(commit.path)
    return commit


def stage_early(store):
    early = staged.START_MS - 5
    return stage(store, 1, lines(1, add("f"), inCommitTimestamp=early), timestamp_ms=early)


def add_feature(name):
    return PROTOCOL | {
        "readerFeatures": [*PROTOCOL["readerFeatures"], name],
        "writerFeatures": [*PROTOCOL["writerFeatures"], name],
    }


def plain_protocol():
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["inCommitTimestamp"],
    }


def test_nothing_is_ratified_of_a_broken_proposal(table, store):
    for _, make in BROKEN:
        commit = make(store)
        with pytest.raises(InvalidCommitError):
            propose(table, commit)
    assert versions(table) == []
    assert propose(table, stage(store, 1))


def test_a_dropped_table_ratifies_nothing(table, store):
    commit = stage(store, 1)
    origin = staged.CommitOrigin()
    proposal = staged.check_proposal(table, commit, origin, store)
    drop_table(table)
    with pytest.raises(CatalogTableMissingError):
        ratify(table, proposal, origin)
    with pytest.raises(CatalogTableMissingError):
        list_commits(table)
    assert versions(table) == []


def test_too_many_unpublished_commits_are_refused_until_they_are_published(table, store, settings):
    settings.CATALOG_MAX_UNPUBLISHED = 2
    for version in (1, 2):
        propose(table, stage(store, version))
    with pytest.raises(UnpublishedLimitError):
        propose(table, stage(store, 3))
    assert publish_commits(table, store) == 2
    assert publish_commits(table, store) == 0
    propose(table, stage(store, 3))
    assert [commit.version for commit in list_commits(table).check().commits] == [1, 2, 3]
    for version in (1, 2):
        name = RatifiedVersion.objects.get(version=version).commit.path
        assert store.read(f"_delta_log/{version:020}.json") == store.read(name)


def test_a_staged_file_that_changed_after_its_ratification_is_not_published(table, store):
    commit = stage(store, 1)
    data = store.read(commit.path)
    propose(table, commit)
    for changed in (b"", data[:-2], data + lines(1, add("more"))):
        store.put(commit.path, changed)
        with pytest.raises(MalformedLogError, match="that were ratified"):
            publish_commits(table, store)
        assert store.stat(f"_delta_log/{1:020}.json") is None
    store.put(commit.path, data)
    assert publish_commits(table, store) == 1
    store.put(commit.path, b"")
    propose(table, stage(store, 2))
    assert publish_commits(table, store) == 1


def test_a_client_that_reports_an_unpublished_version_is_refused(table, store):
    propose(table, stage(store, 1))
    with pytest.raises(InvalidCommitError):
        check_published(table, store, 1)
    with pytest.raises(InvalidCommitError):
        note_published(table, 2)
    publish_commits(table, store)
    check_published(table, store, 1)


@pytest.mark.django_db(transaction=True)
def test_concurrent_clients_get_contiguous_versions_each_ratified_once():
    table = make_managed(User.objects.create_user("ann"))
    store, landed, refused = open_location(table), [], []
    chance = random.Random(7)  # noqa: S311
    start = threading.Barrier(6)

    def write():
        start.wait()
        for _ in range(5):
            while True:
                latest = list_commits(table).latest_version
                commit = stage(store, latest + chance.choice((1, 1, 1, 2)))
                with suppress(CatalogError):
                    try:
                        propose(table, commit)
                    except VersionTakenError:
                        refused.append(commit.file_name)
                        continue
                    propose(table, commit)  # its answer was lost
                    landed.append(commit)
                    break
        connections.close_all()

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = list_commits(table).check()
    assert answer.latest_version == 30
    assert sorted(landed, key=lambda commit: commit.version) == [*answer.commits]
    attempts = CommitAttempt.objects.values_list("file_name", flat=True)
    assert sorted(attempts) == sorted(refused)
    assert publish_commits(table, store) == 30


def _ratify_next(members, read):
    """Ratify a commit of each table as soon as none of them, and none of `read`, changes."""
    origin = CommitOrigin()
    while True:
        unchanged = {table.pk: list_commits(table).latest_version for table in read}
        proposals = []
        with suppress(VersionTakenError, GroupRefusedError):
            for table in members:
                store = open_location(table)
                commit = stage(store, list_commits(table).latest_version + 1)
                checked = check_proposal(table, commit, origin, store)
                proposals.append(GroupProposal(table, checked))
            if len(members) == 1:
                ratify(table, checked, origin)
            else:
                ratify_group(proposals, unchanged, origin)
            return


@pytest.mark.django_db(transaction=True)
def test_groups_in_opposite_order_and_single_commits_never_wait_for_each_other():
    person = User.objects.create_user("ann")
    a, b, c = tables = [make_managed(person, name) for name in ("a", "b", "c")]
    failures, start = [], threading.Barrier(6)

    def write(members, read):
        start.wait()
        try:
            for _ in range(5):
                _ratify_next(members, read)
        except Exception as error:  # noqa: BLE001 - a deadlock is an error of the database
            failures.append(error)
        finally:
            connections.close_all()

    works = [((a, b), ()), ((b, a), ()), ((c, b), (a,)), ((a, c), (b,)), ((b,), ()), ((a,), ())]
    threads = [threading.Thread(target=write, args=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [list_commits(table).check().latest_version for table in tables] == [20, 20, 10]


def test_a_managed_table_cannot_be_unregistered(table, store, user):
    propose(table, stage(store, 1))
    with pytest.raises(RequestError, match="The catalog manages"):
        unregister_table(table.mirror, None)
    assert versions(table) == [1]
