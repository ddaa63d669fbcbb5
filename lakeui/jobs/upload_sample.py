"""A preview of an uploaded file before a job loads it: its columns and its first rows.

Text is read here, its first bytes alone. Parquet and ORC may unfold to any size: a separate process
reads them, with bounds of memory and time.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from engine.commands.source_sample import FileSample, sample_file, sample_from_json
from engine.commands.sources import FileSource
from engine.errors import RequestError
from lakeui.catalog.access import may
from lakeui.jobs.errors import UploadNotFoundError
from lakeui.jobs.models import Upload
from lakeui.jobs.uploads import format_of, path_of

_PATIENCE_S = 8
_LINE_BYTES = 64 * 1024
_DELIMITERS = ",;\t|"  # the first if a line has none
_MAPPING = "delta.columnMapping.mode"


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


def sample_upload(upload: Upload, source: FileSource, chosen: Mapping[str, str]) -> FileSample:
    """Return its columns, of chosen types or inferred, and its first rows."""
    path = path_of(upload)
    if source.format in {"csv", "json"}:
        return sample_file(source, path, chosen)
    answer = _read_sample({"source": source.as_json(), "path": str(path), "types": dict(chosen)})
    if "error" in answer:
        raise RequestError(**answer["error"])
    return sample_from_json(answer["sample"])


def _read_sample(request: Mapping[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "engine.commands.source_sample"]
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            command,
            input=json.dumps(request),
            capture_output=True,
            check=True,
            cwd=settings.BASE_DIR,
            text=True,
            timeout=_PATIENCE_S,
        )
        return dict(json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError) as error:
        msg = "The first rows of the file take more memory or time than a preview may."
        remedy = (
            "Write it again in smaller row groups, or use Job: Create, which shows no rows first."
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
