"""What a commit says it did to files, made true for the state it landed on.

An operation counts what it stages. Winners that it is carried over change that: a file with rows
left to mask may be gone, rows may lie in other files. What the actions now do more or less than
those staged is added to the operation's own numbers; rows stay as they were counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.conflicts.footprint import Change, changes_of

_NAMES: Mapping[str, tuple[str, ...]] = {
    "files added": ("numAddedFiles", "numTargetFilesAdded"),
    "files removed": ("numRemovedFiles", "numTargetFilesRemoved"),
    "bytes added": ("numAddedBytes", "numTargetBytesAdded"),
    "bytes removed": ("numRemovedBytes", "numTargetBytesRemoved"),
    "vectors added": ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded"),
    "vectors removed": ("numDeletionVectorsRemoved", "numTargetDeletionVectorsRemoved"),
    "vectors updated": ("numDeletionVectorsUpdated", "numTargetDeletionVectorsUpdated"),
}


_SHARES: Mapping[str, float] = {
    "minFileSize": 0,
    "p25FileSize": 0.25,
    "p50FileSize": 0.5,
    "p75FileSize": 0.75,
    "maxFileSize": 1,
}


def settled_metrics(
    metrics: Mapping[str, Any], staged: Iterable[Action], final: Iterable[Action]
) -> Mapping[str, Any]:
    """The metrics of an operation that staged some actions and commits others.

    Only metrics that it gave as numbers are touched.
    """
    kept = tuple(final)
    before, after = _counted(staged), _counted(kept)
    moved = {
        name: metrics[name] + after[fact] - before[fact]
        for fact, names in _NAMES.items()
        for name in names
        if isinstance(metrics.get(name), int)
    }
    sizes = sorted(add.size for add in _new_files(kept))
    spread = {name: _at(sizes, share) for name, share in _SHARES.items() if name in metrics}
    return {**metrics, **moved, **spread}


def _new_files(actions: Iterable[Action]) -> Iterator[AddFile]:
    for change in changes_of(actions).values():
        if change.add is not None and change.remove is None:
            yield change.add


def _at(sizes: Sequence[int], share: float) -> int:
    """The size that this share of the files stays below, as OPTIMIZE counts it."""
    return sizes[min(len(sizes) - 1, int(share * len(sizes)))] if sizes else 0


def _counted(actions: Iterable[Action]) -> Counter[str]:
    counters: Counter[str] = Counter()
    for change in changes_of(actions).values():
        counters.update(_facts(change))
    return counters


def _facts(change: Change) -> dict[str, int]:
    """A file that stays under another vector is neither added nor removed."""
    remove, add = change.remove, change.add
    had = remove is not None and remove.deletion_vector is not None
    has = add is not None and add.deletion_vector is not None
    facts = {
        "vectors added": int(has),
        "vectors removed": int(had),
        "vectors updated": int(had and has),
    }
    if remove is None and add is not None:
        facts |= {"files added": 1, "bytes added": add.size}
    elif remove is not None and add is None:
        facts |= {"files removed": 1, "bytes removed": remove.size or 0}
    return facts
