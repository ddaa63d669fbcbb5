"""Files that people send as sources: kept under `UPLOAD_HOME`, one directory a file."""

import json
import re
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Q
from django.utils import timezone

from engine.errors import RequestError, StorageError
from lakeui.catalog.access import highest_role
from lakeui.catalog.roles import Role
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.trail import SENT_FILE, record_act

FORMATS = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet", "orc": "orc"}
_PLACE = re.compile(r"[0-9a-f]{32}")  # the name of an upload's directory
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def store_upload(file: "UploadedFile[bytes]", by: User) -> str:
    """Keep a file and give the path that a command's source may name.

    The sender's name survives only in its safe characters; nothing is ever overwritten.

    Raises:
        RequestError: too large, empty, or of a format that no source has.
        NotPermittedError: the person may not write to any table.
        StorageError: the disk did not take it.
    """
    _check_sender(by)
    name = _safe_name(file.name or "")
    _check_size(file)
    place = Path(settings.UPLOAD_HOME) / uuid.uuid4().hex
    try:
        place.mkdir(parents=True, mode=0o700)
        with (place / name).open("xb") as kept:
            for chunk in file.chunks():
                kept.write(chunk)
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        msg = f"The upload could not be kept: {error.strerror}."
        raise StorageError(msg, "Free some disk space, then send it again.") from error
    record_act(SENT_FILE, by, name=name)
    return str(place / name)


def remove_unused(now: datetime | None = None) -> int:
    """Remove files older than `UPLOAD_KEEP_DAYS` that no job to come names; how many went.

    A job that ended keeps its file for as long, so that it can be retried.
    """
    home = Path(settings.UPLOAD_HOME)
    if not home.is_dir():
        return 0
    oldest = (now or timezone.now()) - timedelta(days=settings.UPLOAD_KEEP_DAYS)
    wanted = _named_by_jobs(oldest)
    removed = 0
    for place in home.iterdir():
        made = datetime.fromtimestamp(place.stat().st_mtime, UTC)
        if _PLACE.fullmatch(place.name) and made < oldest and place.name not in wanted:
            shutil.rmtree(place, ignore_errors=True)
            removed += 1
    return removed


def _named_by_jobs(since: datetime) -> frozenset[str]:
    """The directories that jobs not over, lately over, or yet to be made name."""
    wanted = Q(state__in=Job.ACTIVE) | Q(finished_at__gte=since)
    jobs = Job.objects.filter(wanted).values_list("parameters", flat=True)
    schedules = Schedule.objects.values_list("parameters", flat=True)
    texts = (json.dumps(each) for each in (*jobs.iterator(), *schedules.iterator()))
    return frozenset(found for text in texts for found in _PLACE.findall(text))


def format_of(name: str) -> str:
    """The source format that a file's name tells, "" for none."""
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
        msg = f"The file has {size} bytes; at most {settings.MAX_UPLOAD_BYTES} are taken."
        raise RequestError(
            msg, "Split it, or put it under a root in SOURCE_ROOTS and name its path.", field="file"
        )
