"""Manifests of a table's files, for engines reading lists of files: Presto, Athena and others."""

from collections import defaultdict

from engine.actions.files import AddFile
from engine.errors import RequestError
from engine.operations.execution import Execution
from engine.operations.result import OperationResult
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import partition_directory
from engine.spark.object_stores import spark_path
from engine.storage.uri import resolve_log_path

MODE = "symlink_format_manifest"
DIRECTORY = "_symlink_format_manifest"


class ManifestModeError(RequestError, code="DELTA_MODE_NOT_SUPPORTED"):
    """An unsupported manifest mode."""


def generate(mode: str, execution: Execution) -> OperationResult:
    """Write the manifests of the latest version, one per partition, and delete stale ones.

    Raises:
        ManifestModeError: the mode is not symlink_format_manifest.
        RequestError: the table has deletion vectors, unknown to readers of manifests.
    """
    if mode.lower() != MODE:
        what = f"Specified mode '{mode}' is not supported. Supported modes are: {MODE}"
        raise ManifestModeError(what, f"Use {MODE}.", field="mode")
    snapshot = execution.table.snapshot()
    names = [physical_name(column, snapshot.mapping_mode) for column in snapshot.partition_schema]
    lines: dict[str, list[str]] = defaultdict(list)
    for add in snapshot.add_files():
        if add.deletion_vector is not None:
            what = f"{snapshot.table_uri} has deletion vectors, which manifests cannot describe."
            raise RequestError(what, "Run REORG TABLE … APPLY (PURGE) first.", field="mode")
        place = resolve_log_path(snapshot.table_uri, add.path, snapshot.allowed_roots)
        spelled = spark_path(place.root, place.path, execution.table.storage_options)
        lines[_manifest(add, names)].append(spelled)
    if not names:
        lines.setdefault(f"{DIRECTORY}/manifest", [])
    store = execution.table.store
    stale = [status.path for status in store.list_all(DIRECTORY) if status.path not in lines]
    for path, files in lines.items():
        store.put(path, "".join(f"{file}\n" for file in files).encode())
    for path in stale:
        store.delete(path)
    return OperationResult(metrics={"numManifests": len(lines)})


def _manifest(add: AddFile, names: list[str]) -> str:
    directory = partition_directory(add.partition_values, names)
    return "/".join(part for part in (DIRECTORY, directory, "manifest") if part)
