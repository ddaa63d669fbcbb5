"""The rules of VACUUM, staged files and clocks, of a log that is listed or found again, and of the
change feed, each with the change of text that breaks it.
"""

from tests.stateful.mutation import Mutation

VACUUM, PLAN = "operations/maintenance/vacuum.py", "operations/vacuum_plan.py"
STAGED, TIP, TAIL = "transaction/staged_files.py", "log/tip.py", "transaction/log_tail.py"
SEGMENT, COMPACTION = "log/segment.py", "log/compaction.py"
READER, WRITER = "log/checkpoint_reader.py", "log/checkpoint_writer.py"
FEED = "snapshot/change_feed.py"
VACUUM_RULES = (
    Mutation(
        "VACUUM ignores operations of this process",
        VACUUM,
        "starts = [execution.options.running_since(), oldest_start_ms(execution.table.uri)]",
        "starts = [execution.options.running_since()]",
    ),
    Mutation(
        "VACUUM ignores operations of other processes",
        VACUUM,
        "starts = [execution.options.running_since(), oldest_start_ms(execution.table.uri)]",
        "starts = [oldest_start_ms(execution.table.uri)]",
    ),
    Mutation(
        "the age of a file trusts a store whose clock is behind",
        VACUUM,
        "oldest_ms - CLOCK_SLACK_MS",
        "oldest_ms",
    ),
    Mutation(
        "VACUUM deletes files that a commit names meanwhile",
        VACUUM,
        "if needs.key(decode_fully(file.path)) not in spared",
        "if file.path",
    ),
    Mutation(
        "VACUUM takes a missing file that lies there under other escapes",
        PLAN,
        "return self._names(path) or self.may_be_missing(path)",
        "return self._names(path)",
    ),
    Mutation(
        "VACUUM continues in a table that replaced its own",
        VACUUM,
        "if tip is not None and is_replaced(store, tip):",
        "if tip is None:",
    ),
    Mutation(
        "VACUUM deletes files that no log names yet",
        PLAN,
        "    old = [status for status in listing.statuses(sorted(unneeded)) if status.modified_ms < limit]\n",
        "    old = listing.statuses(sorted(unneeded))\n",
    ),
    Mutation(
        "VACUUM relies on the latest checkpoint only",
        PLAN,
        "    removed = dict(removals.files)\n",
        "    removed: dict[str, int] = {}\n",
    ),
    Mutation(
        "VACUUM deletes the deletion vectors of live files",
        PLAN,
        "    live.update(path for add in masked for path in _vector_paths(root, add.deletion_vector))\n",
        "",
    ),
    Mutation(
        "VACUUM deletes the deletion vectors of retained versions",
        PLAN,
        "    return (*_data_paths(root, file.path), *_vector_paths(root, vector))\n",
        "    return _data_paths(root, file.path)\n",
    ),
    Mutation(
        "VACUUM deletes the change files of retained versions",
        PLAN,
        "    retained.update(path for path, ms in removals.changes.items() if ms >= keep_from_ms)\n",
        "",
    ),
    Mutation(
        "VACUUM deletes the files of a table inside the table",
        PLAN,
        "    foreign = tuple(_find_nested_tables(listing.paths))\n",
        "    foreign: tuple[str, ...] = ()\n",
    ),
    Mutation(
        "VACUUM deletes the files of a Databricks job that has not ended",
        PLAN,
        'return marks["started"] - marks["committed"]',
        'return marks["started"] & marks["committed"]',
    ),
    Mutation(
        "a removal counts from the time that its writer gives",
        "log/history.py",
        "action, max(_deletion_ms(action), time_ms))",
        "action, _deletion_ms(action) or time_ms)",
    ),
    Mutation(
        "ages ignore the difference between two clocks",
        "clock.py",
        "return age_ms + CLOCK_SLACK_MS if age_ms > 0 else 0",
        "return age_ms",
    ),
    Mutation(
        "a version is read at times before its own",
        "log/history.py",
        "if self.time_ms(among[middle]) <= timestamp_ms:",
        "if self.time_ms(among[middle]) < timestamp_ms:",
    ),
    Mutation(
        "staged files may be missing",
        STAGED,
        "        if missing:\n",
        "        if missing is None:\n",
    ),
    Mutation(
        "staged files are checked only once",
        STAGED,
        "if self._seen_s is not None and now_s - self._seen_s < LONG_WAIT_S:",
        "if self._seen_s is not None:",
    ),
    Mutation(
        "an earlier VACUUM does not cause a new check of staged files",
        "transaction/staged_files.py",
        "            self._vacuums.note_commit(commit)\n            self._seen_s = None\n",
        "            self._vacuums.note_commit(commit)\n",
    ),
    Mutation(
        "a commit does not wait for a VACUUM that may delete its files",
        "transaction/staged_files.py",
        "            self._vacuums.note_commit(commit)\n",
        "",
    ),
    Mutation(
        "staged deletion vectors may be missing",
        STAGED,
        "        yield locate(store.root, vector).path\n",
        "        yield from ()\n",
    ),
    Mutation(
        "staged change files may be missing",
        STAGED,
        "if not isinstance(action, AddFile | AddCDCFile):",
        "if not isinstance(action, AddFile):",
    ),
    Mutation(
        "another commit under the name of the one read is the same log",
        TIP,
        "return file.is_unchanged(tip.file) or _says_the_same(store, tip, file) is True",
        "return file.is_unchanged(tip.file) or _says_the_same(store, tip, file) is not None",
    ),
    Mutation(
        "only a younger commit under its name is another log",
        "storage/base.py",
        "            return False\n"
        "        return None in (self.etag, earlier.etag) or self.etag == earlier.etag\n",
        "            return self.modified_ms < earlier.modified_ms\n        return True\n",
    ),
    Mutation(
        "an earlier snapshot is handed out without a look at its log",
        "table.py",
        "if newest is not None and newest.version == version and newest.is_in_place():",
        "if newest is not None and newest.version == version:",
    ),
    Mutation(
        "a version may be written into a gap of the log",
        SEGMENT,
        "return store.stat(commit_path(version + 2)) is None",
        "return True",
    ),
    Mutation(
        "a checkpoint hint is believed although its checkpoint is incomplete",
        SEGMENT,
        "        if any(checkpoint.version == hint for checkpoint in complete_checkpoints(files)):\n",
        "        if files:\n",
    ),
    Mutation(
        "a compaction that contradicts itself is believed",
        "log/replay.py",
        "replay.apply(each_once(actions, file.path, _DELETE_IT) if is_compaction else actions)",
        "replay.apply(actions)",
    ),
    Mutation(
        "a checkpoint that contradicts itself is believed",
        READER,
        "distinct_files(files, tombstones, path, _REMEDY), tombstones)",
        "files, tombstones)",
    ),
    Mutation(
        "a compaction is marked as a change of data",
        COMPACTION,
        "return msgspec.structs.replace(action, data_change=False)",
        "return action",
    ),
    Mutation(
        "a compaction drops unknown actions",
        COMPACTION,
        "        if subject is None:\n            return None\n",
        "        if subject is None:\n            continue\n",
    ),
    Mutation(
        "a checkpoint hint goes back to an earlier version",
        WRITER,
        "    if last_hint is not None and last_hint > written.version:\n",
        "    if last_hint is None and written.version < 0:\n",
    ),
    Mutation(
        "a checkpoint stays in a table that replaced its own",
        "snapshot/post_commit.py",
        "        snapshot.store.delete(written.path)\n",
        "",
    ),
    Mutation(
        "the change feed is read although it was disabled",
        FEED,
        "        if not enabled:\n",
        "        if enabled is None:\n",
    ),
    Mutation(
        "the change feed omits rows of removed files",
        FEED,
        '        yield _add_change_type(rows.filter(pc.and_not(was, now)), "delete")\n',
        "        if change.added is not None:\n"
        '            yield _add_change_type(rows.filter(pc.and_not(was, now)), "delete")\n',
    ),
)
