"""Remedies that can be tried on a copy of the table, and why the others cannot."""

from collections.abc import Mapping

from engine.conflict_facts import RemedyKind, TrialChange
from engine.conflicts.eligibility import ROW_TRACKING_PROPERTY, VECTORS_PROPERTY
from engine.conflicts.isolation import IsolationLevel

AS_IT_WAS = TrialChange()
"""No change: the conflict must recur, or the copy proves nothing."""
_LATER = TrialChange(after_winners=True)

CHANGES: Mapping[RemedyKind, TrialChange] = {
    RemedyKind.RETRY: _LATER,
    RemedyKind.READ_AGAIN: _LATER,
    RemedyKind.QUIET_WINDOW: _LATER,
    RemedyKind.ONE_WRITER: _LATER,
    RemedyKind.ALONE: _LATER,
    RemedyKind.ONE_SCHEDULE: _LATER,
    RemedyKind.COMPACT_IN_QUIET: _LATER,
    RemedyKind.APART_IN_TIME: _LATER,
    RemedyKind.ALLOW_REORDERING: TrialChange(
        properties={"delta.isolationLevel": str(IsolationLevel.WRITE_SERIALIZABLE)}
    ),
    RemedyKind.DELETION_VECTORS: TrialChange(
        properties={VECTORS_PROPERTY: "true"}, winners_again=True
    ),
    RemedyKind.ROW_TRACKING: TrialChange(
        properties={ROW_TRACKING_PROPERTY: "true"}, winners_again=True
    ),
}
"""The change of each remedy. Starting later is the same change for every reason."""
SERIALIZABLE = TrialChange(properties={"delta.isolationLevel": str(IsolationLevel.SERIALIZABLE)})
_YOURS = "it depends on the condition that you choose: try one below"
_LAYOUT = "the whole table would have to be written again"
WHY_NOT: Mapping[RemedyKind, str] = {
    RemedyKind.ADD_CONDITION: _YOURS,
    RemedyKind.DIFFERENT_ROWS: _YOURS,
    RemedyKind.PARTITION_PREDICATE: _YOURS,
    RemedyKind.REWRITE_CONDITION: _YOURS,
    RemedyKind.PLAIN_CONDITION: _YOURS,
    RemedyKind.CLUSTER_INSTEAD: _LAYOUT,
    RemedyKind.LAYOUT: _LAYOUT,
    RemedyKind.IDENTITY: _LAYOUT,
}
"""Why a remedy cannot be tried; omitted ones are not applied to the table itself."""
ELSEWHERE = "it changes other programs, not this write or its table"
