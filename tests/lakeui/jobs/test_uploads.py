"""Uploads are stored under their root with harmless names, and nothing else is."""

import os
import stat
import threading
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from engine.commands.sources import FileSource
from engine.errors import RequestError, StorageError
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.catalog.roots import check_source_uri
from lakeui.jobs.errors import (
    NotPermittedError,
    ReadOnlyError,
    TooManyPreviewsError,
    UploadQuotaError,
)
from lakeui.jobs.models import Job, Upload
from lakeui.jobs.uploads import (
    PREVIEWS,
    PREVIEWS_PER_PERSON,
    _read_sample,
    guess_source,
    keep_upload,
    remove_unused,
    sample_upload,
    store_upload,
    take_place,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path, settings) -> Path:
    settings.UPLOAD_HOME = tmp_path / "uploads"
    settings.SOURCE_ROOTS = [str(settings.UPLOAD_HOME)]
    return tmp_path / "uploads"


@pytest.fixture
def operator() -> User:
    user = User.objects.create_user("operator")
    user.groups.add(Group.objects.get(name="operator"))
    return user


def test_an_upload_can_be_named_as_a_source(home, operator):
    place = store_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), operator)
    assert check_source_uri(place) == place
    assert Path(place).read_bytes() == b"id\n1\n"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_an_upload_is_for_its_owner_alone_under_any_umask(home, operator, umask):
    before = os.umask(umask)
    try:
        place = Path(store_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), operator))
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "name",
    ["../../etc/cron.d/x.csv", "..\\..\\x.csv", "a b;c$(d).csv", ".csv.csv", "x" * 250 + ".csv"],
)
def test_a_hostile_name_stays_inside(home, operator, name):
    file = SimpleUploadedFile("x.csv", b"1")
    file._name = name
    place = Path(store_upload(file, operator))
    assert place.is_relative_to(home)
    assert place.parent.parent == home
    assert place.suffix == ".csv"


def test_two_uploads_of_one_name_do_not_meet(home, operator):
    places = {store_upload(SimpleUploadedFile("a.csv", b"1"), operator) for _ in range(2)}
    assert len(places) == 2


@pytest.mark.parametrize("name", ["x.exe", "x", "csv", "x.csv.gz"])
def test_a_format_that_no_source_has_is_refused(home, operator, name):
    with pytest.raises(RequestError, match="format"):
        store_upload(SimpleUploadedFile(name, b"1"), operator)


def test_a_persons_files_use_up_only_that_persons_quota(home, operator, settings):
    settings.UPLOAD_BYTES_PER_PERSON = 10
    first = store_upload(SimpleUploadedFile("a.csv", b"1" * 7), operator)
    for size in (4, 11):
        with pytest.raises(UploadQuotaError, match="7 of 10 bytes"):
            store_upload(SimpleUploadedFile("b.csv", b"1" * size), operator)
    assert [place.name for place in home.iterdir()] == [Path(first).parent.name]
    store_upload(SimpleUploadedFile("c.csv", b"1" * 3), operator)
    other = User.objects.create_user("other")
    other.groups.add(Group.objects.get(name="operator"))
    assert store_upload(SimpleUploadedFile("d.csv", b"1" * 10), other)
    Upload.objects.filter(owner=operator).update(sent_at=timezone.now() - timedelta(days=30))
    remove_unused()
    assert store_upload(SimpleUploadedFile("e.csv", b"1" * 10), operator)


def test_a_file_that_the_disk_refuses_does_not_count_towards_the_quota(home, operator):
    home.write_text("a file in the place of the directory")
    with pytest.raises(StorageError):
        store_upload(SimpleUploadedFile("a.csv", b"1"), operator)
    assert not Upload.objects.exists()


def test_previews_are_limited_for_each_person_and_for_all(home, operator):
    people = [operator, *(User.objects.create_user(f"other {n}") for n in range(PREVIEWS))]
    upload = keep_upload(SimpleUploadedFile("a.csv", b"id\n1\n"), operator)
    with ExitStack() as held:

        def take(person):
            held.enter_context(take_place(f"person-{person.pk}", PREVIEWS_PER_PERSON))
            held.enter_context(take_place("all", PREVIEWS))

        def sample(person):
            return sample_upload(upload, guess_source(upload), {}, person)

        for _ in range(PREVIEWS_PER_PERSON):
            assert sample(operator).rows
            take(operator)
        with pytest.raises(TooManyPreviewsError):
            sample(operator)
        for person in people[1 : 1 + PREVIEWS - PREVIEWS_PER_PERSON]:
            assert sample(person).rows
            take(person)
        with pytest.raises(TooManyPreviewsError):
            sample(people[-1])
    assert sample_upload(upload, guess_source(upload), {}, operator).rows


def test_an_empty_or_too_large_file_is_refused(home, operator, settings):
    settings.MAX_UPLOAD_BYTES = 3
    for content in (b"", b"1234"):
        with pytest.raises(RequestError):
            store_upload(SimpleUploadedFile("x.csv", content), operator)
    assert not home.exists()


def test_a_person_without_write_rights_may_not_upload(home, operator, settings):
    with pytest.raises(NotPermittedError):
        store_upload(SimpleUploadedFile("x.csv", b"1"), User.objects.create_user("nobody"))
    settings.READ_ONLY = True
    with pytest.raises(ReadOnlyError):
        store_upload(SimpleUploadedFile("x.csv", b"1"), operator)


def test_a_guest_with_the_role_viewer_sends_nothing(home):
    guest = User.objects.create_user("guest")
    table = Table.objects.create(name="t", uri="/lake/t")
    grant = TableGrant.objects.create(table=table, user=guest, role=Role.VIEWER)
    with pytest.raises(NotPermittedError):
        store_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), guest)
    grant.role = Role.OPERATOR
    grant.save()
    assert Path(store_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), guest)).is_file()


def test_an_upload_is_in_the_audit_trail(home, operator):
    store_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), operator)
    entry = LogEntry.objects.get(additional_data__did="sent a file")
    assert (entry.actor, entry.object_repr) == (operator, "rows.csv")


def _append(table, place, **fields):
    parameters = {"source": {"kind": "files", "uri": place, "format": "csv"}}
    return Job.objects.create(table=table, kind="append", parameters=parameters, **fields)


def test_old_uploads_go_unless_a_job_to_come_names_them(home, operator):
    table = Table.objects.create(name="t", uri="/lake/t")
    names = ("spare", "waiting", "failed", "long_over")
    places = {
        name: store_upload(SimpleUploadedFile("rows.csv", b"id\n1\n"), operator) for name in names
    }
    now = timezone.now()
    _append(table, places["waiting"])
    _append(table, places["failed"], state=Job.State.FAILED, finished_at=now + timedelta(days=5))
    _append(table, places["long_over"], state=Job.State.SUCCEEDED, finished_at=now)
    (home / "not-ours").mkdir()
    assert remove_unused(now) == 0
    assert remove_unused(now + timedelta(days=8)) == 2
    kept = {name for name, place in places.items() if Path(place).is_file()}
    assert kept == {"waiting", "failed"}
    assert {upload.pk.hex for upload in Upload.objects.all()} == {
        Path(places[name]).parent.name for name in kept
    }
    assert (home / "not-ours").is_dir()


def test_a_preview_is_read_at_a_lower_priority_than_pages(tmp_path):
    """Its program waits for a pipe, so that its priority can be read while it runs."""
    pipe = tmp_path / "a.parquet"
    os.mkfifo(pipe)
    source = FileSource(uri=str(pipe), format="parquet").as_json()
    request = {"source": source, "path": str(pipe), "types": {}}
    reader = threading.Thread(target=_read_sample, args=(request,))
    reader.start()
    with pipe.open("wb"):  # opens once the program opens it
        children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
        pids = [int(pid) for path in children for pid in path.read_text().split()]
        priorities = [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids]
    reader.join()
    assert min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19) in priorities
