"""The rules of checkpoints, compactions, the log and its cleaning, the change feed and clocks, each with
the change of text that breaks it.
"""

from tests.stateful.mutation import Mutation

CHECKPOINT, COMPACTION = "log/checkpoint_writer.py", "log/compaction.py"
SEGMENT, REPLAY, CLEANUP = "log/segment.py", "log/replay.py", "log/cleanup.py"
FEED = "snapshot/change_feed.py"
LOG_RULES = (
    Mutation(
        "a checkpoint drops young tombstones",
        CHECKPOINT,
        "pc.greater(deleted, now_ms - surely_ms(properties.deleted_file_retention_ms))",
        "pc.greater(deleted, now_ms)",
    ),
    Mutation(
        "a checkpoint loses deletion vectors",
        CHECKPOINT,
        "names=names, mask=array.is_null())",
        "names=names, mask=pa.array([True] * len(array), pa.bool_()))",
    ),
    Mutation(
        "a checkpoint loses row ids",
        CHECKPOINT,
        '        if field.name == "dv_id":\n',
        '        if field.name in {"dv_id", "base_row_id"}:\n',
    ),
    Mutation(
        "a checkpoint loses partition values",
        CHECKPOINT,
        "array = _one_array(rows.column(field.name))",
        "array = _one_array(rows.column(field.name))\n"
        '        if field.name == "partition_values":\n'
        "            array = pa.array([[]] * len(array), array.type)",
    ),
    Mutation(
        "a classic checkpoint loses metadata domains",
        CHECKPOINT,
        '"domainMetadata": pa.array(domains, _DOMAIN)',
        '"domainMetadata": pa.array(domains[:0], _DOMAIN)',
    ),
    Mutation(
        "a v2 checkpoint loses metadata domains",
        CHECKPOINT,
        "        *state.set_transactions.values(),\n        *state.domains.values(),\n",
        "        *state.set_transactions.values(),\n",
    ),
    Mutation(
        "a checkpoint always has statistics as structs only",
        CHECKPOINT,
        "    if not properties.write_stats_as_json:\n",
        '    if "stats" in columns:\n',
    ),
    Mutation(
        "statistics as structs are not read",
        "log/checkpoint_reader.py",
        'leaves["stats"] = stats_as_json(parsed["stats_parsed"])',
        'leaves["stats"] = pa.nulls(len(leaves["path"]), pa.string())',
    ),
    Mutation(
        "changes of commits after a checkpoint are ignored",
        REPLAY,
        "        base = _remove_touched_files(base, touched)\n",
        "        base = base.slice(0)\n",
    ),
    Mutation(
        "a checkpoint of a later version is read",
        SEGMENT,
        "usable = [candidate for candidate in complete if candidate.version < limit]",
        "usable = complete",
    ),
    Mutation(
        "an incomplete multi-part checkpoint is read",
        SEGMENT,
        "if count == len(present) and set(present) == set(range(1, count + 1)):",
        "if present:",
    ),
    Mutation(
        "a compaction keeps the oldest action of a file",
        COMPACTION,
        "        newest.pop(subject, None)  # keep the latest last\n        newest[subject] = action\n",
        "        newest.setdefault(subject, action)\n",
    ),
    Mutation(
        "a compaction forgets removals",
        COMPACTION,
        "if isinstance(action, CommitInfo | AddCDCFile):",
        "if isinstance(action, CommitInfo | AddCDCFile | RemoveFile):",
    ),
    Mutation(
        "a compaction forgets domains",
        COMPACTION,
        "if isinstance(action, CommitInfo | AddCDCFile):",
        "if isinstance(action, CommitInfo | AddCDCFile | DomainMetadata):",
    ),
    Mutation(
        "a compaction is read for a version inside it",
        SEGMENT,
        "        and after < file.version <= file.name.end_version <= until\n",
        "        and after < file.version <= until\n",
    ),
    Mutation(
        "a snapshot is updated across a gap in the log",
        SEGMENT,
        "    if newest < version or any(v not in commits for v in range(version + 1, newest + 1)):\n"
        "        return None\n"
        "    later = tuple(commits[v] for v in range(version + 1, newest + 1))\n",
        "    if newest < version:\n"
        "        return None\n"
        "    later = tuple(commits[v] for v in range(version + 1, newest + 1) if v in commits)\n",
    ),
    Mutation(
        "the log is cleaned up to a checkpoint that cannot be read",
        CLEANUP,
        "if not expired or _is_whole(store, checkpoint):",
        "if checkpoint is not None:",
    ),
    Mutation(
        "the log is cleaned before its retention ends",
        CLEANUP,
        "if times[whole.version] < cutoff_ms)",
        "if times[whole.version] is not None)",
    ),
    Mutation(
        "the log is cleaned from the latest version on",
        CLEANUP,
        "        key=lambda log_file: (log_file.version, log_file.path),\n",
        "        key=lambda log_file: (-log_file.version, log_file.path),\n",
    ),
    Mutation(
        "sidecars of retained checkpoints are cleaned",
        CLEANUP,
        "if file.name not in named and file.modified_ms < cutoff_ms",
        "if file.modified_ms < cutoff_ms",
    ),
    Mutation(
        "the change feed of a version with change files also reads its changed files",
        FEED,
        "            yield from iter_physical(snapshot, file, schema, _BATCH_ROWS, batch_bytes)\n        return\n",
        "            yield from iter_physical(snapshot, file, schema, _BATCH_ROWS, batch_bytes)\n",
    ),
    Mutation(
        "files that moved without a change of data are in the change feed",
        FEED,
        "        elif isinstance(action, AddFile) and action.data_change:\n",
        "        elif isinstance(action, AddFile):\n",
    ),
    Mutation(
        "the change feed repeats earlier deletions",
        FEED,
        "was = _live(before, start, stop)",
        "was = pa.array(np.full(stop - start, before is not None))",
    ),
    Mutation(
        "the change feed omits rows that a smaller vector restores",
        FEED,
        "        now = _live(after, start, stop)\n",
        "        now = _live(after, start, stop)\n"
        "        now = now if before is None else pc.and_(was, now)\n",
    ),
    Mutation(
        "times of versions need not rise",
        SEGMENT,
        "return file_ms if before_ms is None else max(file_ms, before_ms + 1)",
        "return file_ms",
    ),
    Mutation(
        "a removal has no time",
        "transaction/reconciliation.py",
        "return msgspec.structs.replace(action, deletion_timestamp=timestamp_ms)",
        "return action",
    ),
    Mutation(
        "bounds of times are exact",
        "actions/statistics.py",
        "return _shift_time(moment, error + _MILLISECOND)",
        "return moment",
    ),
    Mutation(
        "bounds of decimals are exact",
        "snapshot/data_skipping.py",
        "moved = _DIGITS.add(value, lost * side)",
        "moved = value",
    ),
    Mutation(
        "a truncated text is its own upper bound",
        "expressions/possible_values.py",
        "    if not may_be_cut(maximum):\n",
        "    if maximum:\n",
    ),
)
