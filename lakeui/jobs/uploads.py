"""Uploaded source files: kept under `UPLOAD_HOME`, one directory per file.

A file is for its sender. Admins, who see every table, may name it too, so that they can retry
failed jobs. Nobody may name a folder of uploads: its files have several senders.

The columns and first rows of a file are shown before a job loads it. Of text only the first bytes
are read. Parquet and ORC may unfold to any size: a separate process reads them, with bounds of
memory and time.
"""

import fcntl
import json
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from engine.commands.source_sample import FileSample, sample_file, sample_from_json
from engine.commands.sources import FileSource
from engine.errors import RequestError, StorageError
from engine.storage.uri import local_path, real_place
from lakeui.catalog.access import highest_role, lock_person, may
from lakeui.catalog.roles import Role
from lakeui.jobs.errors import (
    NotPermittedError,
    ReadOnlyError,
    TooManyPreviewsError,
    UploadNotFoundError,
    UploadQuotaError,
)
from lakeui.jobs.models import Job, Schedule, Upload
from lakeui.jobs.trail import SENT_FILE, record_act
from lakeui.private_files import make_private_directory, open_private

FORMATS = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet", "orc": "orc"}
_PLACE = re.compile(r"[0-9a-f]{32}")  # the name of an upload's directory
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

PREVIEWS_PER_PERSON = 2
PREVIEWS = 4
"""Previews at a time on one machine: each may take a core and 1 GiB for `_PATIENCE_S`."""

_PATIENCE_S = 15
_PREVIEW_PROGRAM = """
import os
os.nice(10)  # before its imports, which take a second: pages come first
from engine.commands import source_sample
source_sample.main()
"""
_LINE_BYTES = 64 * 1024
_DELIMITERS = ",;\t|"  # the first if a line has none
_MAPPING = "delta.columnMapping.mode"


def store_upload(file: "UploadedFile[bytes]", by: User) -> str:
    """Store a file and return its path for a command's source: see `keep_upload`."""
    return str(path_of(keep_upload(file, by)))


def path_of(upload: Upload) -> Path:
    """Return the path of a stored file, for a command's source."""
    return Path(settings.UPLOAD_HOME) / upload.pk.hex / upload.name


def keep_upload(file: "UploadedFile[bytes]", by: User) -> Upload:
    """Store a file.

    The sender's name survives only in its safe characters; nothing is ever overwritten.

    Raises:
        RequestError: too large, empty, or of an unsupported format.
        UploadQuotaError: the person's files would take more than `UPLOAD_BYTES_PER_PERSON`.
        NotPermittedError: the person may not write to any table.
        StorageError: the disk did not take it.
    """
    _check_sender(by)
    _check_size(file)
    upload = Upload(owner=by, name=_safe_name(file.name or ""), size_bytes=file.size or 0)
    _reserve(upload, by)
    path = path_of(upload)
    place = path.parent
    try:
        make_private_directory(place)
        with open_private(path, "xb") as kept:
            for chunk in file.chunks():
                kept.write(chunk)
    except OSError as error:
        upload.delete()
        shutil.rmtree(place, ignore_errors=True)
        msg = f"The upload could not be stored: {error.strerror}."
        raise StorageError(msg, "Free some disk space, then send the file again.") from error
    record_act(SENT_FILE, by, name=upload.name)
    return upload


def _reserve(upload: Upload, by: User) -> None:
    """Record a file that is about to be written, if the person's quota has room for it."""
    limit = settings.UPLOAD_BYTES_PER_PERSON
    with transaction.atomic():
        lock_person(by)
        kept_bytes = sum(Upload.objects.filter(owner=by).values_list("size_bytes", flat=True))
        if kept_bytes + upload.size_bytes > limit:
            raise UploadQuotaError(kept_bytes, limit)
        upload.save(force_insert=True)


def check_upload(uri: str, by: User | None) -> None:
    """Check that a source outside the uploads stays outside, and that one inside is theirs.

    Another person's file and a missing one have the same message.

    Raises:
        UploadNotFoundError: it is a folder with uploads in or below it, or none of their files.
        PathOutsideRootError: the location cannot be followed.
    """
    path = local_path(real_place(uri))
    home = Path(settings.UPLOAD_HOME)
    if path is None or not home.is_dir():
        return
    if _is_in(home, path):
        raise UploadNotFoundError(uri)
    if _is_in(path, home) and not _is_readable_by(path, by):
        raise UploadNotFoundError(uri)


def _is_readable_by(path: Path, by: User | None) -> bool:
    """Whether a person may read an upload; the system, and a deleted account's job, may not."""
    if by is None or not _PLACE.fullmatch(path.parent.name) or not path.is_file():
        return False
    sent = Upload.objects.filter(pk=uuid.UUID(path.parent.name), name=path.name)
    return (sent if may(by, "admin") else sent.filter(owner=by)).exists()


def _is_in(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or below it, however the file system spells either."""
    try:
        return any(parent.samefile(folder) for parent in (path, *path.parents) if parent.exists())
    except OSError:
        return path.is_relative_to(folder)


def remove_unused(now: datetime | None = None) -> int:
    """Remove files older than `UPLOAD_KEEP_DAYS` that no future job names; return the number.

    An ended job keeps its file for as long, so that it can be retried.
    """
    home = Path(settings.UPLOAD_HOME)
    if not home.is_dir():
        return 0
    oldest = (now or timezone.now()) - timedelta(days=settings.UPLOAD_KEEP_DAYS)
    named = _list_directories_in_use(oldest)
    removed = 0
    for place in home.iterdir():
        made = datetime.fromtimestamp(place.stat().st_mtime, UTC)
        if _PLACE.fullmatch(place.name) and made < oldest and place.name not in named:
            shutil.rmtree(place, ignore_errors=True)
            removed += 1
    rows = Upload.objects.filter(sent_at__lt=oldest)
    rows.exclude(pk__in=[uuid.UUID(name) for name in named]).delete()
    return removed


def _list_directories_in_use(since: datetime) -> frozenset[str]:
    """List the directories named by active, recently ended and scheduled jobs."""
    recent = Q(state__in=Job.ACTIVE) | Q(finished_at__gte=since)
    jobs = Job.objects.filter(recent).values_list("parameters", flat=True)
    schedules = Schedule.objects.values_list("parameters", flat=True)
    texts = (json.dumps(value) for value in (*jobs.iterator(), *schedules.iterator()))
    return frozenset(name for text in texts for name in _PLACE.findall(text))


def format_of(name: str) -> str:
    """Return the source format by a file's name, "" for none."""
    return FORMATS.get(PurePosixPath(name).suffix.lstrip(".").lower(), "")


def _check_sender(by: User) -> None:
    if settings.READ_ONLY:
        raise ReadOnlyError
    role = highest_role(by)
    if role is None or role < Role.OPERATOR:
        what = "An upload"
        raise NotPermittedError(what, "write", "some table")


def _safe_name(sent: str) -> str:
    base = PurePosixPath(sent.replace("\\", "/")).name
    if not format_of(base):
        msg = f"The format of {base[:100]!r} cannot be loaded."
        raise RequestError(
            msg, f"Send a file with the extension .{', .'.join(FORMATS)}.", field="file"
        )
    return _UNSAFE.sub("_", base).lstrip("._")[-120:]


def _check_size(file: "UploadedFile[bytes]") -> None:
    size = file.size or 0
    if size == 0:
        msg = "The file is empty."
        raise RequestError(msg, "Send a file that has rows.", field="file")
    if size > settings.MAX_UPLOAD_BYTES:
        msg = f"The file has {size:,} bytes, but the limit is {settings.MAX_UPLOAD_BYTES:,}."
        raise RequestError(
            msg, "Split it, or put it under a root in SOURCE_ROOTS and use its path.", field="file"
        )


def find_upload(pk: UUID, by: User) -> Upload:
    """Return a person's stored file; admins may read any.

    Raises:
        UploadNotFoundError: there is none.
    """
    rows = Upload.objects.all() if may(by, "admin") else Upload.objects.filter(owner=by)
    upload = rows.filter(pk=pk).first()
    if upload is None or not path_of(upload).is_file():
        raise UploadNotFoundError(str(pk))
    return upload


def guess_source(upload: Upload) -> FileSource:
    """Guess how to read a file: its format by its name, a CSV delimiter by its first line."""
    path = path_of(upload)
    source = FileSource(uri=str(path), format=format_of(upload.name))
    if source.format != "csv":
        return source
    with path.open("rb") as file:
        line = file.readline(_LINE_BYTES)
    return replace(source, delimiter=max(_DELIMITERS, key=lambda sign: line.count(sign.encode())))


def sample_upload(
    upload: Upload, source: FileSource, chosen: Mapping[str, str], by: User
) -> FileSample:
    """Return its columns, of chosen types or inferred, and its first rows.

    Raises:
        TooManyPreviewsError: `PREVIEWS_PER_PERSON` of the person's, or `PREVIEWS`, are at work.
        RequestError: the file cannot be read so, or not within its bounds.
    """
    path = path_of(upload)
    with take_place(f"person-{by.pk}", PREVIEWS_PER_PERSON), take_place("all", PREVIEWS):
        if source.format in {"csv", "json"}:
            return sample_file(source, path, chosen)
        answer = _read_sample(
            {"source": source.as_json(), "path": str(path), "types": dict(chosen)}
        )
    if "error" in answer:
        raise RequestError(**answer["error"])
    return sample_from_json(answer["sample"])


@contextmanager
def take_place(name: str, count: int) -> Iterator[None]:
    """Hold one of `count` places among all processes; a process that dies frees its places.

    Raises:
        TooManyPreviewsError: all are taken.
    """
    folder = Path(settings.UPLOAD_HOME) / "previews"
    make_private_directory(folder)
    for number in range(count):
        with open_private(folder / f"{name}.{number}", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield
            return
    raise TooManyPreviewsError


def _read_sample(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _PREVIEW_PROGRAM],
            input=json.dumps(request),
            capture_output=True,
            check=True,
            cwd=settings.BASE_DIR,
            text=True,
            timeout=_PATIENCE_S,
        )
        return dict(json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError) as error:
        msg = "The first rows of the file need more memory or time than a preview allows."
        remedy = (
            "Rewrite the file with smaller row groups, or load it over REST with create in "
            "POST /api/v1/tables/, which shows no preview."
        )
        raise RequestError(msg, remedy, field="file") from error


def create_parameters(source: FileSource, sample: FileSample) -> dict[str, Any]:
    """Return the parameters of a command that creates a table from a file and its sample."""
    parameters: dict[str, Any] = {"source": source.as_json()}
    if source.format in {"csv", "json"} or sample.is_changed:
        parameters["schema"] = json.loads(sample.schema_json)
    if sample.mapped_names:
        parameters["properties"] = {_MAPPING: "name"}
    return parameters


def sample_as_json(sample: FileSample) -> dict[str, Any]:
    """Return the sample for REST, without the job's own fields."""
    inside = ("schema_json", "mapped_names", "is_changed")
    return {name: value for name, value in asdict(sample).items() if name not in inside}
