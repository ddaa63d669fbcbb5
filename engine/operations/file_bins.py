"""Choice of files to compact together (pure)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.actions.files import AddFile
from engine.conflicts.row_counts import physical_rows
from engine.protocol.iceberg_compat import is_tagged

MAX_DELETED_RATIO = 0.05
"""A file with a larger share of deleted rows is rewritten even if it is large and single."""

Bin = tuple[AddFile, ...]


@dataclass(frozen=True, slots=True)
class BinRule:
    """The rule for choosing files.

    Attributes:
        target_size_bytes: the maximum size of a bin.
        purge: rewrite exactly the files with a deletion vector (REORG … PURGE).
        fits_iceberg: with `purge`, also rewrite files not readable by Iceberg clients.
    """

    target_size_bytes: int
    purge: bool = False
    fits_iceberg: bool = False

    def wants(self, add: AddFile) -> bool:
        """Return whether a file takes part in the rewrite."""
        if self.purge:
            return add.deletion_vector is not None or (self.fits_iceberg and not is_tagged(add))
        return add.size < self.target_size_bytes or has_many_deleted(add)


def pack(files: Iterable[AddFile], rule: BinRule) -> list[Bin]:
    """Pack files into bins for rewriting, each of one partition and in the order of the log.

    Smallest files first, so a later run finds nothing to join: any two bins together exceed
    the target size.
    """
    partitions: dict[tuple[tuple[str, str | None], ...], list[tuple[int, AddFile]]] = {}
    for order, add in enumerate(files):
        if rule.wants(add):
            key = tuple(sorted((k, v or None) for k, v in add.partition_values.items()))
            partitions.setdefault(key, []).append((order, add))
    return [bin_ for group in partitions.values() for bin_ in _bins(group, rule)]


def batches(bins: Sequence[Bin], size_bytes: int) -> Iterator[list[Bin]]:
    """Yield groups of bins of about `size_bytes`; each group is one commit."""
    group: list[Bin] = []
    total = 0
    for bin_ in bins:
        size = sum(add.size for add in bin_)
        if group and total + size > size_bytes:
            yield group
            group, total = [], 0
        group.append(bin_)
        total += size
    if group:
        yield group


def digest(bins: Iterable[Bin]) -> str:
    """Return a digest of the bins' files, stable across runs."""
    keys = sorted(f"{add.path}\0{add.key[1] or ''}" for bin_ in bins for add in bin_)
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]


def has_many_deleted(add: AddFile) -> bool:
    """Return whether the share of deleted rows is large enough to slow down reads."""
    rows = physical_rows(add)
    if add.deletion_vector is None:
        return False
    return not rows or add.deletion_vector.cardinality / rows > MAX_DELETED_RATIO


def _bins(files: list[tuple[int, AddFile]], rule: BinRule) -> Iterator[Bin]:
    group: list[tuple[int, AddFile]] = []
    total = 0
    for order, add in sorted(files, key=lambda file: (file[1].size, file[0])):
        if group and total + add.size > rule.target_size_bytes:
            yield from _worth(group, rule)
            group, total = [], 0
        group.append((order, add))
        total += add.size
    yield from _worth(group, rule)


def _worth(group: list[tuple[int, AddFile]], rule: BinRule) -> Iterator[Bin]:
    """Yield the group as a bin unless it is one file without enough deleted rows."""
    ordered = tuple(add for _, add in sorted(group, key=lambda item: item[0]))
    alone = len(ordered) == 1 and not (rule.purge or has_many_deleted(ordered[0]))
    if ordered and not alone:
        yield ordered
