"""Uploaded source files: kept under `UPLOAD_HOME`, one directory per file.

A file is for its sender. Admins, who see every table, may name it too, so that they can retry
failed jobs. Nobody may name a folder of uploads: its files have several senders.
"""

import json
import re
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from engine.errors import RequestError, StorageError
from engine.storage.uri import local_path, real_place
from lakeui.catalog.access import highest_role, may
from lakeui.catalog.roles import Role
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError, UploadNotFoundError
from lakeui.jobs.models import Job, Schedule, Upload
from lakeui.jobs.trail import SENT_FILE, record_act
from lakeui.private_files import make_private_directory, open_private

FORMATS = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet", "orc": "orc"}
_PLACE = re.compile(r"[0-9a-f]{32}")  # the name of an upload's directory
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


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
        NotPermittedError: the person may not write to any table.
        StorageError: the disk did not take it.
    """
    _check_sender(by)
    upload = Upload(owner=by, name=_safe_name(file.name or ""))
    _check_size(file)
    path = path_of(upload)
    place = path.parent
    try:
        make_private_directory(place)
        with open_private(path, "xb") as kept:
            for chunk in file.chunks():
                kept.write(chunk)
        upload.save(force_insert=True)
    except DatabaseError:
        shutil.rmtree(place, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        msg = f"The upload could not be kept: {error.strerror}."
        raise StorageError(msg, "Free some disk space, then send it again.") from error
    record_act(SENT_FILE, by, name=upload.name)
    return upload


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
        msg = f"{base[:100]!r} is of no format that can be loaded."
        raise RequestError(msg, f"Send a file that ends in .{', .'.join(FORMATS)}.", field="file")
    return _UNSAFE.sub("_", base).lstrip("._")[-120:]


def _check_size(file: "UploadedFile[bytes]") -> None:
    size = file.size or 0
    if size == 0:
        msg = "The file is empty."
        raise RequestError(msg, "Send one that holds rows.", field="file")
    if size > settings.MAX_UPLOAD_BYTES:
        msg = f"The file has {size:,} bytes; at most {settings.MAX_UPLOAD_BYTES:,} are taken."
        raise RequestError(
            msg, "Split it, or put it under a root in SOURCE_ROOTS and name its path.", field="file"
        )
