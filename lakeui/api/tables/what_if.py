"""A table's own history under another isolation level, or decided at row level or at file level."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflict_facts import Rule
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.record_replay import JUDGED
from lakeui.api.fields import Int64Field, RecordedChoiceField, RecordedField
from lakeui.api.filtering import parse_query
from lakeui.api.serializers.concurrency import SwimLaneRequestSerializer
from lakeui.api.serializers.isolation import LEVELS
from lakeui.api.table_views import TableScopedView
from lakeui.conflicts.replay.overlaps import WriteOutcome, pair_changes, replay
from lakeui.conflicts.replay.recorded_history import clamp_range, latest_versions
from lakeui.conflicts.replay.what_if import DEFAULT_VERSIONS


class CommitVerdictSerializer(serializers.Serializer[Any]):
    """A commit with overlaps, under the other setting."""

    version = serializers.IntegerField()
    operation = RecordedField(allow_null=True)
    overlapping_versions = serializers.ListField(child=serializers.IntegerField())
    verdict = serializers.ChoiceField(choices=JUDGED)
    why = serializers.CharField()
    rule = RecordedChoiceField(list(Rule))
    winning_version = serializers.IntegerField(allow_null=True)


class ConflictVerdictSerializer(serializers.Serializer[Any]):
    """A recorded conflict, under the other setting."""

    conflict_id = serializers.IntegerField()
    kind = serializers.CharField(help_text="aborted or resolved.")
    rule = RecordedChoiceField(list(Rule))
    verdict = serializers.ChoiceField(choices=JUDGED)
    why = serializers.CharField()


class OverlapSerializer(serializers.Serializer[Any]):
    """A write with overlaps: its outcome, and the replayed one. `version` is null if aborted."""

    version = serializers.IntegerField(allow_null=True)
    conflict_id = serializers.IntegerField(allow_null=True)
    operation = RecordedField(allow_null=True)
    user_name = RecordedField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    overlap_count = serializers.IntegerField(
        allow_null=True, help_text="Versions that it overlapped with."
    )
    outcome = serializers.ChoiceField(choices=list(WriteOutcome))
    verdict = serializers.ChoiceField(choices=JUDGED)
    why = serializers.CharField()
    winning_version = serializers.IntegerField(allow_null=True)
    winner_operation = RecordedField(allow_null=True)
    cost_ms = Int64Field(allow_null=True)
    cost_bytes = Int64Field(allow_null=True)


class PairChangeSerializer(serializers.Serializer[Any]):
    """Two operations: how many were aborted, how many would be for certain, how many perhaps."""

    current_operation = RecordedField(allow_null=True)
    winner_operation = RecordedField(allow_null=True)
    now = serializers.IntegerField()
    then = serializers.IntegerField()
    open = serializers.IntegerField()


class TotalsSerializer(serializers.Serializer[Any]):
    """Writes under one of the four settings; `ms` and `size_bytes` compare with actual waste."""

    level = serializers.CharField()
    row_level = serializers.BooleanField()
    writes = serializers.IntegerField()
    aborted = serializers.IntegerField(help_text="That would be aborted for certain.")
    passed = serializers.IntegerField()
    open = serializers.IntegerField(help_text="Undecidable.")
    added = serializers.IntegerField(help_text="That committed and would be aborted.")
    spared = serializers.IntegerField(help_text="That were aborted and would pass.")
    ms = Int64Field()
    size_bytes = Int64Field()
    uncosted = serializers.IntegerField(help_text="Added ones whose time is not recorded.")


class WhatIfSerializer(serializers.Serializer[Any]):
    """A range of versions under another setting."""

    level = serializers.CharField()
    row_level = serializers.BooleanField()
    first = serializers.IntegerField()
    last = serializers.IntegerField()
    commits = CommitVerdictSerializer(many=True)
    conflicts = ConflictVerdictSerializer(many=True)
    not_replayed = serializers.ListField(
        child=serializers.IntegerField(), help_text="Versions whose commit is not kept whole."
    )
    is_capped = serializers.BooleanField(help_text="Only the latest 2,000 conflicts are judged.")
    aborted_now = serializers.IntegerField()
    totals = TotalsSerializer(many=True)
    pairs = PairChangeSerializer(many=True)
    overlaps = OverlapSerializer(many=True)


class WhatIfRequestSerializer(SwimLaneRequestSerializer):
    """The other setting; omitted parts are the table's own."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    row_level = serializers.BooleanField(required=False, allow_null=True, default=None)


_ANSWER = (
    "level",
    "row_level",
    "first",
    "last",
    "commits",
    "conflicts",
    "not_replayed",
    "is_capped",
)


class WhatIfDetail(TableScopedView):
    """Recorded commits and conflicts under another isolation level, or decided at row level or at file level."""

    serializer_class = WhatIfSerializer

    @extend_schema(parameters=[WhatIfRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Return verdicts: passes, conflict, or undecidable with the reason."""
        table, parameters = self.table, parse_query(request, WhatIfRequestSerializer)
        first, last = latest_versions(table, DEFAULT_VERSIONS)
        row_level = parameters["row_level"]
        level = (
            parameters.get("level") or table.isolation_level or IsolationLevel.WRITE_SERIALIZABLE
        )
        replayed = replay(
            table,
            IsolationLevel(level),
            row_level=table.row_level_eligible if row_level is None else row_level,
            versions=clamp_range(
                table, parameters.get("first", first), parameters.get("last", last)
            ),
        )
        answer = replayed.answer
        body = {
            **{name: getattr(answer, name) for name in _ANSWER},
            "aborted_now": replayed.aborted_now,
            "totals": replayed.totals,
            "pairs": pair_changes(replayed.overlaps),
            "overlaps": replayed.overlaps,
        }
        return Response(WhatIfSerializer(body).data)
