"""Files that people send as sources: kept under `UPLOAD_HOME`, one directory a file."""

import re
import shutil
import uuid
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile

from engine.errors import RequestError, StorageError
from lakeui.catalog.access import may
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError

FORMATS = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet", "orc": "orc"}
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
    return str(place / name)


def format_of(name: str) -> str:
    """The source format that a file's name tells, "" for none."""
    return FORMATS.get(PurePosixPath(name).suffix.lstrip(".").lower(), "")


def _check_sender(by: User) -> None:
    if settings.READ_ONLY:
        raise ReadOnlyError
    if not may(by, "write") and not by.table_grants.exists():
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
