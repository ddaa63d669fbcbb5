"""OPTIMIZE on the sample table: files into one, each source saying where its rows went, or not."""

from engine.actions.codec import Action
from engine.actions.compaction import CompactionInfo
from engine.actions.files import AddFile, RemoveFile
from engine.conflicts.sample_table import Row, SampleTable


def compact_sample(sample_table: SampleTable, name: str, *, tagged: bool) -> tuple[Action, ...]:
    """Rewrite both files into one or, partitioned, each into its own.

    Rows keep their order if `tagged`; otherwise they are reordered.
    """
    files = sample_table.files
    bins = [[file] for file in files] if sample_table.setting.partitioned else [files]
    return tuple(
        action
        for chosen in bins
        for action in _rewrite_files(sample_table, chosen, name, tagged=tagged)
    )


def _rewrite_files(
    sample_table: SampleTable, sources: list[AddFile], name: str, *, tagged: bool
) -> list[Action]:
    target = f"{name}-{sources[0].path}"
    removes: list[Action] = []
    rows: list[tuple[Row, int]] = []
    for source in sources:
        info = CompactionInfo(
            target=target, offset=len(rows), row_count=len(sample_table.rows[source.path])
        )
        removes.append(_remove_compacted(source, info if tagged else None))
        rows += zip(sample_table.rows[source.path], sample_table.origins[source.path], strict=True)
    rows = rows if tagged else sorted(rows, reverse=True)
    made = sample_table.file(
        target, [row for row, _ in rows], data_change=False, origins=[origin for _, origin in rows]
    )
    return [*removes, made]


def _remove_compacted(source: AddFile, info: CompactionInfo | None) -> RemoveFile:
    return RemoveFile(
        path=source.path,
        data_change=False,
        partition_values=source.partition_values,
        stats=source.stats,
        tags=info.tags() if info else None,
    )
