"""The metrics of a commit, compared with its actions and with delta-spark's names."""

from collections.abc import Iterable, Mapping, Sequence

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.log.commits import LogCommit

_VECTORS = ("numDeletionVectorsAdded", "numDeletionVectorsRemoved", "numDeletionVectorsUpdated")
_WRITE = {"numFiles", "numOutputBytes", "numOutputRows"}
_REPLACED = {"numRemovedFiles", "numRemovedBytes"}
_CHANGES = {"numAddedChangeFiles", "numDeletedRows", "numCopiedRows"}
_REWRITE = {
    *("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes"),
    *("numAddedChangeFiles", "numCopiedRows", *_VECTORS),
    *("executionTimeMs", "scanTimeMs", "rewriteTimeMs"),
}
_COMPACTION = {
    *("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes"),
    *("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize"),
    "numDeletionVectorsRemoved",
}
_MERGE = {
    *("numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated"),
    *("numTargetRowsMatchedUpdated", "numTargetRowsNotMatchedBySourceUpdated"),
    *("numTargetRowsDeleted", "numTargetRowsMatchedDeleted"),
    *("numTargetRowsNotMatchedBySourceDeleted", "numTargetRowsCopied", "numOutputRows"),
    *("numTargetFilesAdded", "numTargetFilesRemoved", "numTargetChangeFilesAdded"),
    *("numTargetBytesAdded", "numTargetBytesRemoved"),
    *("executionTimeMs", "materializeSourceTimeMs", "scanTimeMs", "rewriteTimeMs"),
    *(name.replace("num", "numTarget") for name in _VECTORS),
}
_RESTORE = {
    *("tableSizeAfterRestore", "numOfFilesAfterRestore", "numRemovedFiles", "numRestoredFiles"),
    *("removedFilesSize", "restoredFilesSize"),
}
NAMES: Mapping[str, Sequence[set[str]]] = {
    "WRITE": (_WRITE, _WRITE | _REPLACED, _WRITE | _REPLACED | _CHANGES),
    "DELETE": (_REWRITE | {"numDeletedRows"},),
    "UPDATE": (_REWRITE | {"numUpdatedRows"},),
    "TRUNCATE": ({"numRemovedFiles", "executionTimeMs"},),
    "MERGE": (_MERGE,),
    "OPTIMIZE": (_COMPACTION,),
    "REORG": (_COMPACTION,),
    "VACUUM START": ({"numFilesToDelete", "sizeOfDataToDelete"},),
    "VACUUM END": ({"numDeletedFiles", "numVacuumedDirectories"},),
    "RESTORE": (_RESTORE,),
}
"""The names of `operationMetrics`: one set for each way an operation can be done."""


def check_metrics(commit: LogCommit) -> None:
    """Check that the names are delta-spark's, and that counts of files and bytes match the actions."""
    info = commit.commit_info
    assert info is not None
    metrics = {name: int(value) for name, value in (info.operation_metrics or {}).items()}
    assert set(metrics) in NAMES.get(info.operation or "", ({*()},)), (info.operation, metrics)
    counted = _count_changes(commit.actions, as_pairs=info.operation != "RESTORE")
    for name, value in metrics.items():
        told = counted.get(_FACTS.get(_plain(name), ""))
        assert told is None or value == told, (info.operation, name, value, told)


_FACTS = {
    "numFiles": "files added",
    "numAddedFiles": "files added",
    "numRemovedFiles": "files removed",
    "numRestoredFiles": "files added",
    "numOutputBytes": "bytes added",
    "numAddedBytes": "bytes added",
    "numRemovedBytes": "bytes removed",
    "removedFilesSize": "bytes removed",
    "restoredFilesSize": "bytes added",
    "numAddedChangeFiles": "change files",
    "numDeletionVectorsAdded": "vectors added",
    "numDeletionVectorsRemoved": "vectors removed",
    "minFileSize": "smallest",
    "maxFileSize": "largest",
}
_MERGED = {
    "numTargetFilesAdded": "numAddedFiles",
    "numTargetFilesRemoved": "numRemovedFiles",
    "numTargetBytesAdded": "numAddedBytes",
    "numTargetBytesRemoved": "numRemovedBytes",
    "numTargetChangeFilesAdded": "numAddedChangeFiles",
}


def _plain(name: str) -> str:
    """Return the common name of a MERGE metric."""
    return _MERGED.get(name, name.replace("numTargetDeletion", "numDeletion"))


def _count_changes(actions: Iterable[Action], *, as_pairs: bool) -> dict[str, int]:
    """Count changes; a file that only changes its vector does not count, except for RESTORE."""
    listed = list(actions)
    adds = {action.path: action for action in listed if isinstance(action, AddFile)}
    removes = {action.path: action for action in listed if isinstance(action, RemoveFile)}
    new = [added for path, added in adds.items() if not as_pairs or path not in removes]
    gone = [removed for path, removed in removes.items() if not as_pairs or path not in adds]
    return {
        "files added": len(new),
        "files removed": len(gone),
        "bytes added": sum(added.size for added in new),
        "bytes removed": sum(removed.size or 0 for removed in gone),
        "change files": sum(isinstance(action, AddCDCFile) for action in listed),
        "vectors added": sum(add.deletion_vector is not None for add in adds.values()),
        "vectors removed": sum(remove.deletion_vector is not None for remove in removes.values()),
        "smallest": min((added.size for added in new), default=0),
        "largest": max((added.size for added in new), default=0),
    }
