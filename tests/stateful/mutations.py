"""The rules that `prove_by_mutation` breaks: conflict detection, the log, VACUUM and related rules."""

from tests.stateful.log_mutations import LOG_RULES
from tests.stateful.mutation import Mutation
from tests.stateful.vacuum_mutations import VACUUM_RULES

PAIRS, MOVES = "conflicts/decide/row_pairs.py", "conflicts/decide/row_level.py"
MAPS, REBASE = "conflicts/decide/row_map.py", "conflicts/decide/rebase.py"
READS, FOOTPRINT = "conflicts/reads.py", "conflicts/overlap.py"
ROWS = "transaction/snapshot_rows.py"
CONFLICT_RULES = (
    Mutation(
        "two writes may change the same row",
        PAIRS,
        "shared = taken.gone & changed or _read_among(current, taken, rows)",
        "shared = _read_among(current, taken, rows)",
    ),
    Mutation(
        "the union leaves the winning commit's deletions out",
        PAIRS,
        "vector = rows.vector(latest.deletion_vector) | changed",
        "vector = rows.vector(remove.deletion_vector) | changed",
    ),
    Mutation(
        "new rows of the winning commit are not tested",
        PAIRS,
        "    matched = union(rows.select_rows(read, add, new) for read in reads)",
        "    matched = NO_ROWS",
    ),
    Mutation(
        "removed rows that were only read do not count",
        PAIRS,
        "reads = [predicate for predicate in current.reads if not predicate.every_match_changes]",
        "reads = []",
    ),
    Mutation(
        "rows that RESTORE brought back are not new",
        PAIRS,
        "return after - before, before - after",
        "return after - before, NO_ROWS",
    ),
    Mutation(
        "removing a whole file changes none of its rows",
        PAIRS,
        "return all_rows(rows.row_count(ours.path)) - base",
        "return NO_ROWS",
    ),
    Mutation(
        "a second winning commit forgets what the first one left",
        PAIRS,
        "    staged = rows.vector(ours.add.deletion_vector) if staged is None else staged\n",
        "    staged = rows.vector(ours.add.deletion_vector)\n",
    ),
    Mutation(
        "a row map counts the vector that the remove names",
        MAPS,
        "segments[remove.path] = (_segment(info, rows),)",
        "segments[remove.path] = (_segment(CompactionInfo(target=info.target, offset=info.offset,"
        " row_count=info.row_count, deletion_vector=remove.deletion_vector), rows),)",
    ),
    Mutation(
        "sources need not tile their target",
        MAPS,
        "if info.offset < reached or info.live_count < 0:",
        "if info.offset < 0:",
    ),
    Mutation(
        "gaps between sources may hold live rows",
        MAPS,
        "return not gaps or gaps <= rows.vector(target.deletion_vector)",
        "return True",
    ),
    Mutation(
        "row ids need not be the same on both sides",
        MAPS,
        "    if not np.array_equal(np.sort(ids), new_ids[order]) or len(np.unique(ids)) != len(ids):\n"
        "        return None\n",
        "    if not len(new_ids):\n        return None\n    new_ids = np.arange(len(new_ids))\n"
        "    ids = np.arange(len(ids)) % len(new_ids)\n    order = np.argsort(new_ids)\n",
    ),
    Mutation(
        "OPTIMIZE keeps rows that a winning commit removed",
        MOVES,
        "        _gather(masked, carried)\n",
        "",
    ),
    Mutation(
        "OPTIMIZE loses rows that a winning commit brought back",
        MOVES,
        "carried = None if brought_back else own_map.carry(theirs.path, gone)",
        "carried = own_map.carry(theirs.path, gone)",
    ),
    Mutation(
        "the current transaction does not follow the rows it changes",
        MOVES,
        "        _gather(arrivals, carried)\n",
        "",
    ),
    Mutation(
        "files that rows moved to are not read",
        REBASE,
        "return paths.union(*(moved[path] for path in paths & moved.keys()))",
        "return paths",
    ),
    Mutation(
        "a rebased remove names the old vector",
        REBASE,
        "        deletion_vector=latest.deletion_vector,\n        base_row_id=latest.base_row_id,",
        "        base_row_id=latest.base_row_id,",
    ),
    Mutation(
        "an append stays exempt although a later commit read it",
        "conflicts/candidates.py",
        "    return any(may_have_read(winner, add, schema, columns, mode) for add in append.adds)",
        "    return False",
    ),
    Mutation(
        "a predicate proves what an UPDATE reads, whatever it assigns",
        READS,
        'return info.operation == "UPDATE" and tagged',
        'return info.operation == "UPDATE"',
    ),
    Mutation(
        "a predicate proves what a MERGE or a write reads",
        READS,
        'return info.operation == "UPDATE" and tagged',
        "return True",
    ),
    Mutation(
        "an attribute of Spark is compared with a text that has no quotes",
        READS,
        "if is_unquoted and (len(plain) < len(conjuncts) or not _names_integers(tree)):",
        "if is_unquoted and not plain:",
    ),
    Mutation(
        "a recorded predicate is read at this moment",
        READS,
        "return None if depends_on_more or tree != later else tree",
        "return None if depends_on_more else tree",
    ),
    Mutation(
        "a commit that removes a file of an append need not have read it",
        "conflicts/candidates.py",
        "    if not winner.removed_paths.isdisjoint(add.path for add in append.adds):",
        "    if winner.removed_paths is None:",
    ),
    Mutation(
        "a DELETE and an UPDATE may share rows",
        FOOTPRINT,
        'if current.operation != "DELETE" or current.rows.command_obstacle or current.read_entirely:',
        "if current.rows.command_obstacle or current.read_entirely:",
    ),
    Mutation(
        "a DELETE that changes no more than it found may share rows",
        FOOTPRINT,
        "if not reads or current.read_whole_table or not all(r.every_match_changes for r in reads):",
        "if not reads or current.read_whole_table:",
    ),
    Mutation(
        "any winning commit that only takes rows counts as a DELETE",
        FOOTPRINT,
        "return only_takes and bool(winner.removes) and deletes_only",
        "return only_takes and bool(winner.removes)",
    ),
    Mutation(
        "a rewritten file may share rows",
        FOOTPRINT,
        "only_takes = _only_takes_rows(current.actions) and _only_takes_rows(winner.actions)",
        "only_takes = True",
    ),
    Mutation(
        "a change file names rows that are gone",
        FOOTPRINT,
        "    if any(isinstance(action, AddCDCFile) for action in current.actions):\n        return False\n    only",
        "    only",
    ),
    Mutation(
        "a DELETE counts rows that it found gone",
        PAIRS,
        "    out.gone_count += len(shared)\n",
        "",
    ),
    Mutation(
        "a file that a winning DELETE removed is removed again",
        "transaction/pending_commit.py",
        "        left = self._drop_removed_by(winner)._take_terms_of(winner)\n",
        "        left = self._take_terms_of(winner)\n",
    ),
    Mutation(
        "appends are exempt at Serializable",
        "conflicts/candidates.py",
        "relaxed = level is IsolationLevel.WRITE_SERIALIZABLE and not changes_terms",
        "relaxed = not changes_terms",
    ),
    Mutation(
        "isBlindAppend is believed of every commit",
        "conflicts/transaction_info.py",
        "return self.info.is_blind_append is True and adds_files_only(self.actions)",
        "return self.info.is_blind_append is not False",
    ),
    Mutation(
        "DELETE is not validated",
        "conflicts/candidates.py",
        "    if current.level is IsolationLevel.SNAPSHOT or current.reads_nothing:",
        "    if current.operation == 'DELETE' or current.level is IsolationLevel.SNAPSHOT"
        " or current.reads_nothing:",
    ),
    Mutation(
        "everything runs at snapshot isolation",
        "conflicts/isolation.py",
        "return IsolationLevel.SNAPSHOT if rearranges else of_table",
        "return IsolationLevel.SNAPSHOT",
    ),
    Mutation(
        "RESTORE is checked like any write",
        "conflicts/transaction_info.py",
        "return operation_named(self.operation).replaces_state",
        "return False",
    ),
    Mutation(
        "RESTORE is traced like any write",
        MOVES,
        "if theirs.remove is None or ours.remove is None or replaces_state(overlap.winner):",
        "if theirs.remove is None or ours.remove is None:",
    ),
    Mutation(
        "a MERGE reads no row that a winning commit wrote or removed",
        ROWS,
        "row_numbers = row_numbers[_convert_to_mask(self._matcher(rows))]",
        "row_numbers = row_numbers[:0]",
    ),
    Mutation(
        "a condition that cannot be evaluated matches nothing",
        ROWS,
        "            if self._tester is None:\n                raise\n",
        "            if self._tester is None:\n"
        "                return pa.repeat(pa.scalar(False), rows.num_rows)\n",
    ),
    Mutation(
        "the time limit for comparing rows never ends",
        "conflicts/decide/row_access.py",
        "if spent >= self._left_s:",
        "if spent < 0:",
    ),
    Mutation(
        "row-level resolution uses conditions that differ each time",
        "conflicts/reads.py",
        "    if not is_deterministic(condition):\n        return NOT_DETERMINISTIC\n",
        "",
    ),
    Mutation(
        "row-level resolution uses subqueries",
        "conflicts/reads.py",
        "    if has_subquery(condition):\n        return SUBQUERY\n",
        "",
    ),
    Mutation(
        "row-level resolution uses structs, arrays and maps",
        "conflicts/reads.py",
        "    if uses_complex_types(condition):\n        return COMPLEX_VALUES\n",
        "",
    ),
    Mutation(
        "tables with identity columns take part",
        "conflicts/eligibility.py",
        "columns = [column.name for column in schema if IDENTITY_KEY in column.metadata]",
        "columns: list[str] = []",
    ),
    Mutation(
        "partitioned tables take part",
        "conflicts/eligibility.py",
        "    if not metadata.partition_columns:\n",
        "    if metadata.partition_columns is not None:\n",
    ),
    Mutation(
        "moved rows are followed without deletion vectors",
        "conflicts/eligibility.py",
        "traces_moves=supported and enabled",
        "traces_moves=True",
    ),
    Mutation(
        "moved rows are never followed",
        "conflicts/eligibility.py",
        "traces_moves=supported and enabled",
        "traces_moves=False",
    ),
    Mutation(
        "a larger vector changes a file's row ids",
        REBASE,
        "base_row_id=add.base_row_id if latest.base_row_id is None else latest.base_row_id,",
        "base_row_id=None,",
    ),
    Mutation(
        "bounds stay tight after deletions",
        "actions/statistics.py",
        '"tightBounds": False',
        '"tightBounds": True',
    ),
    Mutation(
        "a file gets a vector without a row count",
        REBASE,
        "counted = latest.stats if physical_rows(latest) is not None else stats",
        "counted = latest.stats",
    ),
    Mutation(
        "a change of metadata goes unnoticed",
        "conflicts/decide/checker.py",
        "changed = overlap.winner.metadata is not None and not overlap.enabled_features",
        "changed = False",
    ),
    Mutation(
        "a change of the protocol goes unnoticed",
        "conflicts/decide/checker.py",
        "changed = overlap.winner.protocol is not None",
        "changed = False",
    ),
    Mutation(
        "two transactions may write one metadata domain",
        "conflicts/decide/checker.py",
        "shared = theirs if overlap.current.replaces_state else overlap.current.domains & theirs",
        "shared: frozenset[str] = frozenset()",
    ),
    Mutation(
        "RESTORE keeps domains that it does not write",
        "conflicts/decide/checker.py",
        "shared = theirs if overlap.current.replaces_state else overlap.current.domains & theirs",
        "shared = overlap.current.domains & theirs",
    ),
    Mutation(
        "two transactions may write for one application id",
        "conflicts/decide/checker.py",
        "shared = overlap.current.app_ids & overlap.winner.app_ids",
        "shared: frozenset[str] = frozenset()",
    ),
    Mutation(
        "a constraint may be ordered before the append that breaks it",
        "conflicts/candidates.py",
        "relaxed = level is IsolationLevel.WRITE_SERIALIZABLE and not changes_terms",
        "relaxed = level is IsolationLevel.WRITE_SERIALIZABLE",
    ),
    Mutation(
        "ALTER runs at snapshot isolation",
        "conflicts/isolation.py",
        "return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN",
        "return True",
    ),
    Mutation(
        "restated files hide new ones",
        "conflicts/candidates.py",
        "stated = same and not add.data_change and add.path not in removed",
        "stated = True",
    ),
    Mutation(
        "only the last winning commit is checked",
        "transaction/committer.py",
        "passed = validate(pending_commit, WinningCommit.from_commit(commit), self.rows)",
        "last = self.store.stat(commit_path(commit.version + 1)) is None\n"
        "            passed = validate(pending_commit, WinningCommit.from_commit(commit), self.rows)"
        " if last else pending_commit.past(WinningCommit.from_commit(commit))",
    ),
    Mutation(
        "a transaction does not recognize its own commit",
        "transaction/log_tail.py",
        "return commit.commit_info is not None and commit.commit_info.txn_id == txn_id",
        "return False",
    ),
    Mutation(
        "in-commit timestamps follow the clock alone",
        "transaction/reconciliation.py",
        "return max(now_ms, pending_commit.timestamp_ms + 1)",
        "return now_ms",
    ),
    Mutation(
        "new row ids start at the mark that the transaction read",
        "transaction/pending_commit.py",
        "row_id_high_water_mark=self._mark_after(winner),",
        "row_id_high_water_mark=self.row_id_high_water_mark,",
    ),
    Mutation(
        "a cleaned log goes unnoticed",
        "transaction/log_tail.py",
        "    if newest == version:\n        return None\n",
        "    if newest >= version:\n        return None\n",
    ),
    Mutation(
        "a file that is staged again may be missing",
        "transaction/prepare.py",
        "return frozenset((added & live.keys()) - removed)",
        "return frozenset()",
    ),
)
MUTATIONS = (*CONFLICT_RULES, *LOG_RULES, *VACUUM_RULES)
