"""What would have avoided a conflict, best first, each with the reason why it would have."""

from engine.conflict_facts import Rule, Subclass
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.transaction_info import CurrentTransaction
from engine.errors import ConflictFacts, Remedy

_REARRANGING = frozenset({"OPTIMIZE", "REORG"})
_ROW_CHANGING = frozenset({"UPDATE", "DELETE", "MERGE"})


def remedies_for(facts: ConflictFacts, current: CurrentTransaction) -> tuple[Remedy, ...]:
    """The remedies that fit a conflict, ranked. Never Serializable: it only adds conflicts."""
    match facts.rule:
        case Rule.PROTOCOL_CHANGED:
            return _of_protocol(facts)
        case Rule.METADATA_CHANGED:
            return (_QUIET_WINDOW,)
        case Rule.DOMAIN_WRITTEN:
            return (_ONE_ALTER_AT_A_TIME,)
        case Rule.APPLICATION_COMMITTED:
            return (_ONE_CHECKPOINT,)
        case Rule.DATA_ADDED | Rule.READ_FILE_REMOVED | Rule.REMOVED_FILE_REMOVED:
            return tuple(_of_files(facts, current))


def _of_protocol(facts: ConflictFacts) -> tuple[Remedy, ...]:
    return (_CREATE_ONCE,) if facts.read_version < 0 else (_QUIET_WINDOW,)


def _of_files(facts: ConflictFacts, current: CurrentTransaction) -> list[Remedy]:
    if current.replaces_state:
        return [_ALONE]
    compacts = bool(_REARRANGING & {facts.current.operation, facts.winner.operation})
    remedies = [_ROW_TRACKING] if compacts and _lacks_row_ids(current) else []
    if {facts.current.operation, facts.winner.operation} <= _REARRANGING:
        return [*remedies, _ONE_SCHEDULE]
    if facts.subclass is Subclass.ALLOTTED_TIME_EXCEEDED:
        remedies.append(_MORE_TIME)
    if facts.subclass is Subclass.ROW_LEVEL_CHANGES:
        remedies.append(_DIFFERENT_ROWS)
    else:
        remedies.extend(_of_layout(facts, current))
    if facts.rule is Rule.DATA_ADDED and _may_have_read_an_append(facts):
        remedies.append(_OFF_FRESH_DATA)
    if compacts:
        remedies.append(_COMPACT_IN_QUIET if current.rows.traces_moves else _COMPACT_OR_VECTORS)
    return remedies or [_APART_IN_TIME]


def _lacks_row_ids(current: CurrentTransaction) -> bool:
    """Whether row ids alone are missing to follow rows that a compaction ordered anew."""
    return current.rows.traces_moves and not current.rows.traces_order


def _of_layout(facts: ConflictFacts, current: CurrentTransaction) -> list[Remedy]:
    if current.partition_columns:
        return [_partition_predicate(facts, current)]
    if facts.current.operation in _ROW_CHANGING:
        has_vectors = current.rows.traces_moves
        return [_CLUSTER] if has_vectors else [_DELETION_VECTORS, _CLUSTER]
    return [_CLUSTER] if current.reads else []


def _partition_predicate(facts: ConflictFacts, current: CurrentTransaction) -> Remedy:
    values = " AND ".join(f"{name} = '…'" for name in current.partition_columns)
    if facts.current.operation == "MERGE":
        return Remedy(
            f"put literal values of the partition columns into the condition of the MERGE, as in `{values}`",
            "A join on partition columns reads every partition: only literal values tell, before the"
            " data is read, which partitions the MERGE depends on.",
            kind="partition_predicate",
        )
    return Remedy(
        f"add `{values}` to its condition so that the two touch different partitions",
        "Files of partitions that a condition rules out are not read, and cannot conflict.",
        kind="partition_predicate",
    )


def _may_have_read_an_append(facts: ConflictFacts) -> bool:
    relaxed = facts.current.isolation_level == IsolationLevel.WRITE_SERIALIZABLE
    return relaxed and facts.winner.operation in _ROW_CHANGING


_QUIET_WINDOW = Remedy(
    "change schemas, properties and features in a quiet window",
    "A change of metadata or protocol fails every write that began before it.",
    kind="quiet_window",
)
_ONE_ALTER_AT_A_TIME = Remedy(
    "let one writer at a time change it",
    "A metadata domain has one value: of two writers who did not see each other one must lose.",
    kind="one_writer",
)
_ONE_CHECKPOINT = Remedy(
    "give every streaming query a checkpoint location of its own",
    "Two queries that share a checkpoint have one application id, and each batch can land once.",
    kind="own_checkpoint",
)
_CREATE_ONCE = Remedy(
    "open the table that is there now, and write to it",
    "Several writers that create or first write to one empty path all want version 0: one gets it.",
    kind="open_existing",
)
_ALONE = Remedy(
    "run it while nothing else writes the table",
    "RESTORE, CLONE and REPLACE set the whole table: whatever lands meanwhile would be undone unseen.",
    kind="alone",
)
_ONE_SCHEDULE = Remedy(
    "put the two compactions on one schedule",
    "Both rewrite the same small files: one of them does the work for nothing.",
    kind="one_schedule",
)
_MORE_TIME = Remedy(
    "raise the time allowed for row-level conflict resolution, or write in smaller pieces",
    "The rows of the two writes could not be told apart within the budget of one commit.",
    kind="more_time",
)
_DIFFERENT_ROWS = Remedy(
    "keep the two writes on different rows, by conditions that cannot select the same ones",
    "Row-level concurrency lets writes of one file pass only where they touch different rows.",
    kind="different_rows",
)
_DELETION_VECTORS = Remedy(
    "enable deletion vectors (`delta.enableDeletionVectors = true`)",
    "With them two writes of one file conflict only where they touch the same rows.",
    kind="deletion_vectors",
)
_CLUSTER = Remedy(
    "partition or cluster the table by the columns that conditions use",
    "Then the files of one write hold rows that the other's condition rules out. Partitioning by a"
    " column of high cardinality costs more in small files than it saves in conflicts.",
    kind="layout",
)
_OFF_FRESH_DATA = Remedy(
    "keep concurrent UPDATE, DELETE and MERGE off freshly appended data, or let one of them read it",
    "An append by itself harms nobody, but once a later writer may have read or rewritten its rows,"
    " others that did not see them can no longer be ordered before it.",
    kind="off_fresh_data",
)
_COMPACT_OR_VECTORS = Remedy(
    "compact while nothing else rewrites those files, or enable deletion vectors",
    "With deletion vectors an order-preserving compaction can be traced row by row.",
    kind="compact_in_quiet",
)
_COMPACT_IN_QUIET = Remedy(
    "compact while nothing else rewrites those files",
    "A compaction that cannot be followed row by row counts as a rewrite of all its files.",
    kind="compact_in_quiet",
)
_ROW_TRACKING = Remedy(
    "enable row tracking (`delta.enableRowTracking = true`)",
    "OPTIMIZE of a clustered table and ZORDER BY order rows anew: only row ids tell where each went.",
    kind="row_tracking",
)
_APART_IN_TIME = Remedy(
    "run the two at different times",
    "They touch the same files, and nothing recorded tells their rows apart.",
    kind="apart_in_time",
)
