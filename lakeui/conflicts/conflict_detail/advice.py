"""How to avoid an aborted write: each way with a verdict, and its effect in the last 30 days.

Verdicts are of this conflict: "passes" only if the record proves it. Ways that are not advised come
last, with the reason.

One way is a narrower condition. It is derived from the bounds of both sides' files in the column of
the table's layout: files outside a condition are not read, and cannot conflict.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.commands.model import Command
from engine.commands.names import name_sql
from engine.conflict_facts import Decision, RemedyKind, Rule, SideFile, Verdict
from engine.conflicts.explain.remedy_table import NOT_BY_PARTITIONS, NOT_BY_SERIALIZABLE
from engine.conflicts.isolation import IsolationLevel
from engine.errors import EngineError
from engine.expressions.render import quote_string
from engine.vocabulary import Reads, Removes, operation_named
from engine.words import count_noun
from lakeui.catalog.models import Table
from lakeui.conflicts.conflict_detail.sides import BothSides, SimilarConflict, SimilarConflicts
from lakeui.conflicts.eligibility.row_verdicts import RowVerdicts, row_verdicts
from lakeui.conflicts.models import Conflict

PASSES, MAY_PASS, COSTS_MORE, ON_ALREADY, ADDS = (
    "passes", "may pass", "costs more", "on already", "adds conflicts",
)  # fmt: skip
_BY_TIME = frozenset(
    {
        RemedyKind.QUIET_WINDOW,
        RemedyKind.ONE_WRITER,
        RemedyKind.ALONE,
        RemedyKind.ONE_SCHEDULE,
        RemedyKind.COMPACT_IN_QUIET,
    }
)
_COSTLY = frozenset(
    {
        RemedyKind.ALLOW_REORDERING,
        RemedyKind.LAYOUT,
        RemedyKind.CLUSTER_INSTEAD,
        RemedyKind.MORE_TIME,
    }
)
_NARROWS = frozenset({RemedyKind.DIFFERENT_ROWS, RemedyKind.PARTITION_PREDICATE})
_SAID_HERE = frozenset({RemedyKind.RETRY, RemedyKind.RESTART_STREAM, RemedyKind.APART_IN_TIME})
_METADATA = frozenset({Rule.METADATA_CHANGED, Rule.PROTOCOL_CHANGED})

_LEAST_KEPT = 0.25
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictAdvice:
    """One way to avoid the conflict.

    It would have avoided `helped` of `of` similar conflicts; `undecidable` more are not counted.
    `act` is where to do it: "job", "sql" (with `sql`), "schedule", "schedules", "eligibility",
    "isolation"; "" if elsewhere. `condition` is to be added to the write's own; `rest_sql` is the
    statement for the rows that `sql` leaves out.
    """

    kind: str
    title: str
    text: str
    verdict: str = ""
    helped: int | None = None
    of: int | None = None
    undecidable: int = 0
    history: str = ""
    act: str = ""
    sql: str = ""
    rest_sql: str = ""
    condition: str = ""
    is_advised: bool = True


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A `condition` to add by AND. `share` of the write's changed rows remain in its reach.

    `rest` is the condition of the rows that it leaves out. `files_before` become `files_after`, and
    at least `rows_after` of `rows_before` rows are changed; rows are None if not every file has
    them. `is_sample` if not every file was recorded.
    """

    condition: str
    rest: str
    column: str
    is_above: bool
    bound: str
    low: str
    high: str
    share: float
    files_before: int
    files_after: int
    rows_before: int | None
    rows_after: int | None
    is_sample: bool

    def would_have_passed(self, other: SimilarConflict) -> bool | None:
        """Whether it would have avoided a similar conflict; None if its files are not recorded."""
        if other.order_column != self.column or not other.shared_low:
            return None
        if self.is_above:
            return _key(other.shared_high) <= _key(self.bound)
        return _key(other.shared_low) >= _key(self.bound)


def advice(
    conflict: Conflict, sides: BothSides, like: SimilarConflicts
) -> tuple[ConflictAdvice, ...]:
    """Return the ways, best first, those not advised last; none if both writes landed."""
    if conflict.kind == Conflict.Kind.RESOLVED:
        return ()
    narrowed = find_narrowing(conflict, sides.decision)
    entries = [
        *_retry(conflict, like),
        *_narrow(conflict, sides, narrowed, like),
        *_move(conflict, sides, like),
        *_iter_recorded_advice(conflict, sides, like, has_narrowing=narrowed is not None),
        *_not_advised(conflict, sides),
    ]
    return tuple(sorted(entries, key=lambda advised: not advised.is_advised))


def _retry(conflict: Conflict, like: SimilarConflicts) -> Iterator[ConflictAdvice]:
    tried = [other for other in like.conflicts if other.passed_again is not None]
    passed = sum(bool(other.passed_again) for other in tried)
    done = conflict.job is not None and conflict.job.committed_version is not None
    if not conflict.can_retry:
        text = "It would be aborted again. Run it only after the cause is removed."
        yield ConflictAdvice(kind=RemedyKind.RETRY, title="Retry", text=text, is_advised=False)
        return
    yield ConflictAdvice(
        kind=RemedyKind.RETRY,
        title="Retry",
        text=_retry_text(conflict),
        verdict=PASSES if done else MAY_PASS,
        helped=passed if tried else None,
        of=len(tried) if tried else None,
        history="{helped} of {of} retries of this write committed at the first attempt",
        act="job" if conflict.job else "",
    )


def _retry_text(conflict: Conflict) -> str:
    winner = (
        "The winning commit" if conflict.winning_version is None else f"v{conflict.winning_version}"
    )
    text = (
        f"{winner} stays as it is. Run again on the latest version, the "
        f"{conflict.current_operation} reads the rows of that commit."
    )
    removes = operation_named(conflict.winner_operation).removes
    if conflict.row_count and removes in (Removes.ROWS, Removes.ALL_ROWS):
        rows = "the row is" if conflict.row_count == 1 else f"{conflict.rows_text} are"
        text = (
            f"{winner} stays as it is: {rows} deleted or changed, and the "
            f"{conflict.current_operation} then reads the latest rows."
        )
    return text


def _narrow(
    conflict: Conflict, sides: BothSides, proposed: Narrowing | None, like: SimilarConflicts
) -> Iterator[ConflictAdvice]:
    if proposed is None:
        return
    judged = [proposed.would_have_passed(other) for other in like.conflicts]
    decided = [verdict for verdict in judged if verdict is not None]
    about = "≈ " if proposed.is_sample else ""
    where = proposed.low if proposed.low == proposed.high else f"{proposed.low} to {proposed.high}"
    fewer = f": {about}{proposed.files_after:,} of {proposed.files_before:,} are left"
    if proposed.files_after == proposed.files_before:
        fewer = ""
    is_time = proposed.bound[4:5] == "-"
    words = ("before", "after") if is_time else ("below", "above")
    side = words[proposed.is_above]
    text = (
        f"Add `AND {proposed.condition}`. In the files that both touched, {proposed.column} "
        f"is {where}. {about}{100 * proposed.share:.0f} % of the rows that the "
        f"{conflict.current_operation} changes are {side}, and files that the new condition "
        f"rules out are not read{fewer}. {_describe_rest(proposed, about)}"
    )
    whole = sides.current.statement_is_whole
    yield ConflictAdvice(
        kind="narrow",
        title="Narrow the condition",
        text=text,
        verdict=PASSES,
        helped=sum(decided) if decided else None,
        of=len(decided) if decided else None,
        undecidable=len(judged) - len(decided),
        history="{helped} of {of} aborted attempts of this write would have passed",
        act="schedule" if _schedule(conflict) else "sql",
        sql=narrow_statement(conflict, proposed.condition) if whole else "",
        rest_sql=narrow_statement(conflict, proposed.rest) if whole else "",
        condition=proposed.condition,
    )


def _describe_rest(proposed: Narrowing, about: str) -> str:
    """Describe the rows that the narrowed write leaves as they are."""
    if proposed.rows_before is None or proposed.rows_after is None:
        left = "The other rows stay as they are"
    else:
        before, after = proposed.rows_before, proposed.rows_after
        left = (
            f"It changes {about or 'at least '}{after:,} of {count_noun(before, 'row')} and leaves"
            f" up to {before - after:,} as they are"
        )
    return f"{left}: run a second statement for them, with `AND {proposed.rest}`."


def _move(conflict: Conflict, sides: BothSides, like: SimilarConflicts) -> Iterator[ConflictAdvice]:
    current, winner = sides.current, sides.winner
    if not (current.read_at and winner.ended_at) or conflict.rule in _METADATA:
        return
    same = [
        other
        for other in like.conflicts
        if (other.winner_operation, other.winner_user_name)
        == (conflict.winner_operation, conflict.winner_user_name)
    ]
    who = conflict.winner_user_name or f"the {conflict.winner_operation}"
    yield ConflictAdvice(
        kind=RemedyKind.APART_IN_TIME,
        title="Move one of the two",
        text=f"If the {conflict.current_operation} starts after {who} has committed, it reads "
        f"v{conflict.winning_version} and does not conflict with it.",
        verdict=PASSES,
        helped=len(same),
        of=like.count,
        history=f"{{helped}} of {{of}}, those with {who}",
        act="schedule" if _schedule(conflict) else "schedules",
    )


def _iter_recorded_advice(
    conflict: Conflict, sides: BothSides, like: SimilarConflicts, *, has_narrowing: bool
) -> Iterator[ConflictAdvice]:
    """Iterate over the engine's advice at the time of the abort."""
    own = sides.current.statement if sides.current.statement_is_whole else ""
    same_rule = sum(other.rule == conflict.rule for other in like.conflicts)
    for remedy in _remedies(conflict):
        kind = str(remedy.get("kind") or "")
        if kind in _SAID_HERE or (has_narrowing and kind in _NARROWS):
            continue
        if _is_on_now(conflict.table, kind):
            continue
        if kind == RemedyKind.DELETION_VECTORS:
            yield _vectors(conflict, remedy)
            continue
        timed = kind in _BY_TIME
        yield ConflictAdvice(
            kind=kind,
            title=str(remedy.get("action", "")),
            text=str(remedy.get("reason", "")),
            verdict=PASSES if timed else COSTS_MORE if kind in _COSTLY else "",
            helped=same_rule if timed and conflict.rule else None,
            of=like.count if timed and conflict.rule else None,
            history="{helped} of {of} aborted attempts of this write failed the same check",
            act=_act_of(conflict, kind, own),
            sql=own,
        )


def _is_on_now(table: Table | None, kind: str) -> bool:
    """Whether the table has since got the feature that was missing at the time of the abort."""
    if table is None:
        return False
    now = {
        RemedyKind.DELETION_VECTORS: table.deletion_vectors,
        RemedyKind.ROW_TRACKING: table.row_tracking,
        RemedyKind.ALLOW_REORDERING: table.isolation_level == IsolationLevel.WRITE_SERIALIZABLE,
    }
    return any(kind == has and is_on for has, is_on in now.items())


def _vectors(conflict: Conflict, remedy: dict[str, Any]) -> ConflictAdvice:
    """Return the advice to use deletion vectors, with row verdicts on this pair's conflicts."""
    table, pair = conflict.table, (conflict.current_operation, conflict.winner_operation)
    judged = row_verdicts(table).filter_by_pair(*pair) if table else RowVerdicts(())
    passes, unknown = (
        judged.filter_by_verdict(Verdict.PASSES),
        judged.filter_by_verdict(Verdict.UNDECIDABLE),
    )
    own = any(verdict.conflict_id == conflict.pk for verdict in passes)
    return ConflictAdvice(
        kind=RemedyKind.DELETION_VECTORS,
        title=str(remedy.get("action", "")),
        text=str(remedy.get("reason", "")),
        verdict=PASSES if own else MAY_PASS,
        helped=len(passes),
        of=len(judged.conflicts) - len(unknown),
        undecidable=len(unknown),
        history="{helped} of {of} aborted writes of this pair would have passed at row level",
        act="eligibility",
    )


def _not_advised(conflict: Conflict, sides: BothSides) -> Iterator[ConflictAdvice]:
    table = conflict.table
    if table is None or conflict.rule in _METADATA:
        return
    if table.deletion_vectors:
        both = "Deletion vectors, row tracking" if table.row_tracking else "Deletion vectors"
        changed = sides.current.changes.files_changed if sides.current.changes else 0
        by_file = (
            f" Without them, the two writes would have conflicted on {count_noun(changed, 'file')}."
            if changed
            else ""
        )
        text = f"{'Both are' if table.row_tracking else 'They are'} enabled.{by_file}"
        yield ConflictAdvice(
            kind="vectors_on", title=both, text=text, verdict=ON_ALREADY, is_advised=False
        )
        if not table.partition_columns:
            yield ConflictAdvice(
                kind="partition",
                title="Partition the table",
                text=NOT_BY_PARTITIONS,
                verdict=COSTS_MORE,
                is_advised=False,
            )
    if table.isolation_level == IsolationLevel.WRITE_SERIALIZABLE:
        yield ConflictAdvice(
            kind="serializable",
            title=IsolationLevel.SERIALIZABLE,
            text=NOT_BY_SERIALIZABLE,
            verdict=ADDS,
            act="isolation",
            is_advised=False,
        )


def _act_of(conflict: Conflict, kind: str, own: str) -> str:
    if conflict.table is None:
        return ""
    if kind == RemedyKind.ALLOW_REORDERING:
        return "isolation"
    if kind in _BY_TIME:
        return "schedule" if _schedule(conflict) else "schedules"
    return "sql" if kind in _NARROWS and own else ""


def _schedule(conflict: Conflict) -> int | None:
    return conflict.job.schedule_id if conflict.job else None


def _remedies(conflict: Conflict) -> Iterable[dict[str, Any]]:
    remedies = conflict.facts.get("remedies") if isinstance(conflict.facts, dict) else None
    return [remedy for remedy in remedies or () if isinstance(remedy, dict)]


def find_narrowing(conflict: Conflict, decision: Decision | None) -> Narrowing | None:
    """Return the better of the two sides of the shared files; None if little would be left.

    Also None if the write has no condition to add to, or bounds were not recorded.
    """
    if decision is None or not conflict.shared_high or not conflict.current_predicate:
        return None
    changed = [file for file in decision.current_files if file.did == "changed" and file.low]
    low, high = conflict.shared_low, conflict.shared_high
    above = [file for file in changed if _key(file.low or "") > _key(high)]
    below = [file for file in changed if _key(file.high or "") < _key(low)]
    is_above = _rows(above) >= _rows(below)
    kept, bound = (above, high) if is_above else (below, low)
    share = _rows(kept) / (_rows(changed) or 1)
    literal = _literal(conflict, bound)
    if share < _LEAST_KEPT or literal is None:
        return None
    column = name_sql(conflict.order_column)
    counted = all(file.row_count is not None for file in changed)
    in_all = decision.current_changes.rows_changed
    return Narrowing(
        condition=f"{column} {'>' if is_above else '<'} {literal}",
        rest=f"({column} {'<=' if is_above else '>='} {literal} OR {column} IS NULL)",
        column=conflict.order_column,
        is_above=is_above,
        bound=bound,
        low=low,
        high=high,
        share=share,
        files_before=len(changed),
        files_after=len(kept),
        rows_before=in_all if in_all is not None or not counted else _rows(changed),
        rows_after=_rows(kept) if counted else None,
        is_sample=len(changed) < decision.current_changes.files_changed,
    )


def narrow_statement(conflict: Conflict, condition: str) -> str:
    """Return the job's statement with one more condition; "" if it has none to add to."""
    job, table = conflict.job, conflict.table
    if job is None or table is None or operation_named(job.kind).reads is not Reads.CONDITION:
        return ""
    parameters = dict(job.parameters or {})
    where = parameters.get("where") or conflict.current_predicate
    parameters["where"] = f"({where}) AND {condition}" if where else condition
    try:
        command = Command.from_parameters(job.kind, parameters)
        return replace(command, table=table.name).statement()
    except (EngineError, TypeError):
        return ""


def _literal(conflict: Conflict, bound: str) -> str | None:
    kind = _type_of(conflict, conflict.order_column)
    if kind is None:
        return None
    if kind.startswith(_NUMBERS):
        return bound
    return quote_string(bound)


def _type_of(conflict: Conflict, column: str) -> str | None:
    schema: Any = conflict.table.schema if conflict.table else None
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for field in fields or ():
        if isinstance(field, dict) and field.get("name") == column:
            return field["type"] if isinstance(field.get("type"), str) else None
    return None


def _rows(files: Sequence[SideFile]) -> int:
    """Count rows if every file has a count, otherwise files."""
    counts = [file.row_count for file in files]
    return sum(count or 1 for count in counts)


def _key(value: str) -> tuple[bool, float, str]:
    try:
        return False, float(value), ""
    except ValueError:
        return True, 0.0, value
