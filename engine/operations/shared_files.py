"""Files of one table as another one's log names them: by absolute paths, percent-encoded."""

from urllib.parse import quote

import msgspec

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile
from engine.deletion_vectors.files import locate
from engine.snapshot.snapshot import Snapshot
from engine.spark.file_writer import PATH_SAFE
from engine.storage.uri import ResolvedPath, resolve_log_path


def shared_file(owner: Snapshot, add: AddFile) -> AddFile:
    """A live file of a table, and its deletion vector, for the log of another table.

    Row ids stay behind: they count the rows of their own table.

    Raises:
        PathOutsideRootError: the file lies outside the table and its allowed roots.
    """
    place = resolve_log_path(owner.table_uri, add.path, owner.allowed_roots)
    return msgspec.structs.replace(
        add,
        path=_absolute(place),
        deletion_vector=_shared_vector(owner, add.deletion_vector),
        data_change=True,
        base_row_id=None,
        default_row_commit_version=None,
    )


def _shared_vector(
    owner: Snapshot, vector: DeletionVectorDescriptor | None
) -> DeletionVectorDescriptor | None:
    if vector is None or vector.storage_type == "i":
        return vector
    place = _absolute(locate(owner.table_uri, vector, owner.allowed_roots))
    return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=place)


def _absolute(place: ResolvedPath) -> str:
    scheme, _, rest = place.root.rpartition("://")
    return f"{scheme or 'file'}://{quote(f'{rest}/{place.path}', safe=PATH_SAFE)}"
