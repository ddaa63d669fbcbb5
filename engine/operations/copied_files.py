"""Files of one table as the log of a deep clone names them, and what is copied for it.

A copy's name comes from the place, the table's id, and the size and the time that the source's log
has of what was copied: the same name means the same content, also where a table was made anew with
the same names of files. So a run finds what an earlier one copied, and no file of the clone's own is
ever written over.
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
    """A file and the path below the clone that its copy gets."""

    source: ResolvedPath
    path: str


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A live file as the clone has it, and the copies that this takes."""

    add: AddFile
    copies: tuple[FileCopy, ...]


def copy_file(owner: Snapshot, add: AddFile) -> CopiedFile:
    """A live file of a table, and its deletion vector, for the log of its deep clone.

    Row ids stay behind: they count the rows of their own table.

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
