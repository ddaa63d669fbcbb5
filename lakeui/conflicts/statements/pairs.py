"""The pair of statements behind an aborted write, without their literals, and the fixes named for it."""

from engine.conflict_facts import RemedyKind
from lakeui.catalog import log_values
from lakeui.conflicts.models import Conflict, StatementPair
from lakeui.conflicts.statements.text import MAX_CHARACTERS, plain_condition, statement_text
from lakeui.jobs.earlier_runs import fingerprint_of, statement_shape
from lakeui.jobs.models import Job

_REPEATS = frozenset({RemedyKind.RETRY, RemedyKind.RESTART_STREAM})
"""Remedies that write the rows once more and prevent no other conflict."""


def find_pair(conflict: Conflict) -> StatementPair | None:
    """Return the pair of an aborted write, created if it is new; None without a table."""
    if conflict.table is None or conflict.kind not in Conflict.ABORTED_KINDS:
        return None
    operations = conflict.current_operation, conflict.winner_operation
    shapes = (
        statement_shape(_current_statement(conflict)),
        statement_shape(_winner_statement(conflict)),
    )
    fingerprint = "-".join(map(fingerprint_of, operations, shapes))
    rows = StatementPair.objects.filter(table=conflict.table, fingerprint=fingerprint)
    if row := rows.first():
        return row
    pair = StatementPair(
        table=conflict.table,
        fingerprint=fingerprint,
        current_operation=operations[0],
        winner_operation=operations[1],
        current_statement=shapes[0][:MAX_CHARACTERS],
        winner_statement=shapes[1][:MAX_CHARACTERS],
    )
    StatementPair.objects.bulk_create([pair], ignore_conflicts=True)  # another worker may, too
    return rows.get()


def pair_older_conflicts(most: int = 200) -> int:
    """Find the pairs and fixes of aborted writes recorded without them, the latest first.

    Such rows are from a version that kept no pairs. Returns how many of at most `most` were changed.
    """
    unpaired = Conflict.objects.filter(
        statement_pair=None, kind__in=Conflict.ABORTED_KINDS, table__isnull=False
    )
    conflicts = list(
        unpaired.select_related("table", "transaction").order_by("-occurred_at")[:most]
    )
    for conflict in conflicts:
        conflict.statement_pair = find_pair(conflict)
        conflict.fixes = ",".join(list_fixes(conflict))
    return Conflict.objects.bulk_update(conflicts, ["statement_pair", "fixes"])


def list_fixes(conflict: Conflict) -> list[str]:
    """Return the kinds of the recorded remedies that would prevent such a conflict, best first."""
    facts = conflict.facts if isinstance(conflict.facts, dict) else {}
    remedies = facts.get("remedies") or []
    kinds = [str(remedy.get("kind")) for remedy in remedies if isinstance(remedy, dict)]
    return [kind for kind in dict.fromkeys(kinds) if kind in _PREVENTS]


_PREVENTS = frozenset(RemedyKind) - _REPEATS


def _current_statement(conflict: Conflict) -> str:
    """Return the statement of the job or of the program, or the record's description of it."""
    reported = conflict.transaction
    own = reported.statement if reported else None
    if conflict.job_id:
        own = Job.objects.filter(pk=conflict.job_id).values_list("statement", flat=True).first()
    return own or _render(conflict, conflict.current_operation, conflict.current_predicate)


def _winner_statement(conflict: Conflict) -> str:
    facts = conflict.facts if isinstance(conflict.facts, dict) else {}
    winner = facts.get("winner")
    predicate = log_values.predicate(winner) if isinstance(winner, dict) else ""
    return _render(conflict, conflict.winner_operation, predicate)


def _render(conflict: Conflict, operation: str, predicate: str) -> str:
    name = conflict.table.name if conflict.table else ""
    where = plain_condition(predicate)
    return statement_text(name, operation, {"predicate": where}, where) or operation
