"""Files of one table as the log of a deep clone names them, and the copies needed for them.

A copy's name is derived from the source path, the table's id, and the size and time in the source's
log: equal names mean equal content, even if a table was recreated with the same file names. A
repeated run therefore finds the copies of an earlier one and never overwrites the clone's own
files.
"""

import hashlib
import uuid
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile
from engine.deletion_vectors.bitmap import encode_z85
from engine.deletion_vectors.files import locate, relative_path
from engine.snapshot.snapshot import Snapshot
from engine.spark.file_writer import PATH_SAFE
from engine.storage.uri import ResolvedPath, resolve_log_path

_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file and the path of its copy below the clone."""

    source: ResolvedPath
    path: str


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A live file as the clone's log names it, and the copies to make for it."""

    add: AddFile
    copies: tuple[FileCopy, ...]


def copy_file(owner: Snapshot, add: AddFile) -> CopiedFile:
    """Return a table's live file, with its deletion vector, as an action for its deep clone's log.

    Row ids are left out: they number the rows of their own table.

    Raises:
        PathOutsideRootError: the file lies outside the table and its allowed roots.
    """
    place = resolve_log_path(owner.table_uri, add.path, owner.allowed_roots)
    data = FileCopy(place, _copy_name(place, owner.metadata.id, add))
    vector, copies = _copy_vector(owner, add.deletion_vector)
    ours = msgspec.structs.replace(
        add,
        path=quote(data.path, safe=PATH_SAFE),
        deletion_vector=vector,
        data_change=True,
        base_row_id=None,
        default_row_commit_version=None,
    )
    return CopiedFile(ours, (data, *copies))


def _copy_vector(
    owner: Snapshot, vector: DeletionVectorDescriptor | None
) -> tuple[DeletionVectorDescriptor | None, tuple[FileCopy, ...]]:
    if vector is None or vector.storage_type == "i":
        return vector, ()
    place = locate(owner.table_uri, vector, owner.allowed_roots)
    name = encode_z85(uuid.uuid5(uuid.NAMESPACE_URL, f"{owner.metadata.id} {_whole(place)}").bytes)
    ours = msgspec.structs.replace(vector, storage_type="u", path_or_inline_dv=name)
    return ours, (FileCopy(place, relative_path(name)),)


def _copy_name(place: ResolvedPath, table_id: str, add: AddFile) -> str:
    directory, _, name = place.path.rpartition("/")
    content = f"{table_id} {add.size} {add.modification_time} {_whole(place)}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{directory}/{digest}-{name}".lstrip("/")


def _whole(place: ResolvedPath) -> str:
    return f"{place.root}/{place.path}"
