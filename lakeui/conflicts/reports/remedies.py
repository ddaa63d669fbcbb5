"""What helps against a conflict of which only a message is known, best first."""

import re
from collections.abc import Mapping, Sequence

from engine.conflict_facts import Subclass
from engine.errors import Remedy

_EXAMPLE = "date = '2026-11-02'"

_RETRY = Remedy(
    "run it again on the table's latest version",
    "The winner's commit is then part of what it reads; if both keep running, so do the conflicts.",
)
_RESTART = Remedy(
    "restart the stream",
    "It replays the batch on the latest version; nothing is lost. If both keep running, so do the"
    " conflicts.",
)
_LAYOUT = Remedy(
    "partition or cluster the table by the columns that conditions use",
    "Then two writes meet in fewer files. A partition column of high cardinality costs more in"
    " small files than it saves in conflicts.",
)
VECTORS = Remedy(
    "enable deletion vectors, on a runtime with row-level concurrency",
    "Writes of different rows in one file then pass. Clients that cannot read deletion vectors are"
    " locked out; open-source Spark and delta-rs have the vectors but not the concurrency.",
)
_SAME_ROWS = Remedy(
    "keep the two writes on different rows, by conditions that cannot select the same ones",
    "Row-level concurrency was at work: they touched the same rows.",
)
_TIME = Remedy(
    "write in smaller pieces, or run the two at different times",
    "Their rows could not be told apart in the time one commit allows.",
)
_CONDITION = Remedy(
    "give it a condition that says which data it needs",
    "A write that reads the whole table conflicts with every write to it.",
)
_SCHEDULE = Remedy(
    "if both are compactions, put them on one schedule",
    "Both rewrite the same small files: one of them works for nothing.",
)
_QUIET = Remedy(
    "change schemas, properties and features in a quiet window",
    "A change of metadata or protocol fails every write that began before it. Optimized writes and"
    " identity columns change metadata too.",
)
_CREATE = Remedy(
    "create the table before several writers start",
    "Of several that write to an empty place at once, one gets version 0.",
)
_CHECKPOINT = Remedy(
    "give every streaming query a checkpoint location of its own, and run each query once",
    "Queries that share a checkpoint share an application id: each batch can land once.",
)
_FEWER = Remedy(
    "commit less often: larger batches, fewer writers",
    "A commit that always finds its version taken must wait for a pause that never comes.",
)

OF_EVERY_RETRY = (_RETRY, _RESTART)

_BY_SUBCLASS: Mapping[str, tuple[Remedy, ...]] = {
    Subclass.ROW_LEVEL_CHANGES: (_SAME_ROWS,),
    Subclass.ALLOTTED_TIME_EXCEEDED: (_TIME,),
    Subclass.WHOLE_TABLE_READ: (_CONDITION,),
    Subclass.EMPTY_READ_PREDICATES: (_CONDITION,),
    Subclass.METADATA_CHANGE: (_QUIET,),
    Subclass.PROTOCOL_CHANGE: (_QUIET,),
}
_IN_PARTITIONS = frozenset(
    {"", Subclass.WITH_PARTITION_HINT, Subclass.PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE}
)
_BY_CODE: dict[str, tuple[Remedy, ...]] = {
    "DELTA_CONCURRENT_APPEND": (_LAYOUT, VECTORS),
    "DELTA_CONCURRENT_DELETE_READ": (_LAYOUT, VECTORS),
    "DELTA_CONCURRENT_DELETE_DELETE": (_SCHEDULE, VECTORS),
    "DELTA_METADATA_CHANGED": (_QUIET,),
    "DELTA_PROTOCOL_CHANGED": (_QUIET, _CREATE),
    "DELTA_CONCURRENT_TRANSACTION": (_CHECKPOINT,),
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": (_FEWER,),
}


def remedies_for(
    code: str, subclass: str, partitions: Sequence[str] = (), *, is_stream: bool = False
) -> tuple[Remedy, ...]:
    """The remedies that fit, ranked. Never a higher isolation level: it only adds conflicts."""
    hinted = subclass in _IN_PARTITIONS and (partitions or "PARTITION" in subclass)
    special = (_predicate(partitions),) if hinted else _BY_SUBCLASS.get(subclass, ())
    retry = (_RESTART if is_stream else _RETRY,)
    first = () if code == "DELTA_CONCURRENT_TRANSACTION" else retry
    return (*first, *special, *(r for r in _BY_CODE.get(code, ()) if r not in special))


def _predicate(partitions: Sequence[str]) -> Remedy:
    """With the partition's own values, where the message names one."""
    parts = re.findall(r"(\w{1,100})=([^,/]{1,100})", partitions[0]) if partitions else ()
    literal = " AND ".join(f"{name} = '{value.strip()}'" for name, value in parts)
    return Remedy(
        f"name the partitions in its condition with literal values, as in `{literal or _EXAMPLE}`",
        "Files of partitions that a condition rules out are not read: it helps where your write"
        " concerns another partition than the winner's. In a MERGE the join alone does not do it:"
        " only literal values tell before the data is read.",
    )
