"""The settings that decide conflicts between statements, overlaps, and concurrent writers.

A table's own history can be replayed under another isolation level, or decided at row level or at
file level.
"""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflict_facts import Rule
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.record_replay import JUDGED
from lakeui.api.authentication import caller
from lakeui.api.fields import Int64Field, RecordedChoiceField, RecordedField
from lakeui.api.jobs import accept_job
from lakeui.api.listing import SequencePaging, parse_body, parse_query
from lakeui.api.request_headers import answer_once, check_if_match, etag_of, state_of
from lakeui.api.schema import IDEMPOTENCY_KEY, IF_MATCH
from lakeui.api.serializers.isolation import (
    LEVELS,
    ConcurrencyRequestSerializer,
    IsolationSerializer,
    LaneSumsRequestSerializer,
    LaneSumsSerializer,
    MatrixRequestSerializer,
    MatrixSerializer,
    OutOfOrderSerializer,
    OverlapRowSerializer,
    OverlapsRequestSerializer,
    SettingsChangeSerializer,
    SettingsSerializer,
    SwimLaneRequestSerializer,
    SwimLaneSerializer,
)
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.serializers.request import PageRequestSerializer
from lakeui.api.table_views import TableScopedView, require
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.isolation.effect import PROMISES, LevelEffect, effect_of, impact_of
from lakeui.conflicts.isolation.overlaps import (
    CountedOverlap,
    Overlaps,
    latest_between,
    overlap_rows,
    overlaps_of,
)
from lakeui.conflicts.isolation.pairs import (
    ObservedPair,
    compute_matrix,
    list_observed_pairs,
    table_matrix,
)
from lakeui.conflicts.isolation.reordering import (
    OutOfOrderVersion,
    find_out_of_order,
    rows_of_versions,
)
from lakeui.conflicts.isolation.settings import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    Proposal,
    proposal_of,
    propose_setting,
    resolves_enablement,
    settings_history,
)
from lakeui.conflicts.lanes.narrowing import LaneFilter, filter_lane
from lakeui.conflicts.lanes.path import lane_path
from lakeui.conflicts.lanes.sums import lane_sums
from lakeui.conflicts.lanes.swim_lane import SwimLane, navigator, other_settings, swim_lane
from lakeui.conflicts.replay.overlaps import WriteOutcome, pair_changes, replay
from lakeui.conflicts.replay.recorded_history import clamp_range, latest_versions
from lakeui.conflicts.replay.what_if import DEFAULT_VERSIONS
from lakeui.jobs.requests import request_job
from lakeui.jobs.streams import streams_reading

_HISTORY = 20
_MAX_OVERLAPS = 10_000

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


class Isolation(TableScopedView):
    """The isolation level in force, and the settings that decide conflicts."""

    serializer_class = IsolationSerializer

    @extend_schema(parameters=[SettingsSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        """Return the settings. Name others to preview their change in `impact`; nothing changes."""
        proposal = _proposal(self.table, parse_query(request, SettingsSerializer))
        body = IsolationSerializer(_isolation(request, self.table, proposal)).data
        return Response(body, headers={"ETag": etag_of(state_of(self.table), body)})

    @extend_schema(
        request=SettingsChangeSerializer,
        responses={202: JobDetailSerializer},
        parameters=[IF_MATCH, IDEMPOTENCY_KEY],
    )
    def patch(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Change the settings by a job: 202 with its `Location`. Check `impact` first."""
        table = self.table
        require(request, "maintain", table)
        values = parse_body(request, SettingsChangeSerializer)
        proposal = Proposal(_properties(values), _columns(values))
        if not proposal:
            fault = "Send a setting to change."
            raise serializers.ValidationError({"level": [fault]})
        reason = values["reason"]
        return answer_once(request, lambda: _set(request, table, proposal, reason))


class Matrix(TableScopedView):
    """Possible conflicts between statements on this table, computed, beside recent overlaps."""

    serializer_class = MatrixSerializer

    @extend_schema(parameters=[MatrixRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        own = build_setting(self.table)
        parameters = parse_query(request, MatrixRequestSerializer)
        level = IsolationLevel(parameters.get("level") or own.level)
        pairs, overlaps = (
            list_observed_pairs(self.table, parameters["days"]),
            overlaps_of(self.table, parameters["days"]),
        )
        body = {
            "level": level,
            "computed": compute_matrix(self.table, level),
            "cells": table_matrix(self.table, build_setting(self.table, level), overlaps, pairs),
            "overlaps": overlaps,
            "observed": pairs,
        }
        return Response(MatrixSerializer(body).data)


class OverlapList(TableScopedView):
    """The overlaps of two kinds of statement in the last 30 days, the latest 10,000."""

    queryset = Table.objects.none()
    serializer_class = OverlapRowSerializer
    pagination_class = SequencePaging

    @extend_schema(
        parameters=[OverlapsRequestSerializer], responses=OverlapRowSerializer(many=True)
    )
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        table = self.table  # first: hidden tables stay unknown
        parameters = parse_query(request, OverlapsRequestSerializer)
        sides = parameters["current"], parameters["winner"]
        overlaps = latest_between(overlaps_of(table), *sides, _MAX_OVERLAPS)
        page: Sequence[CountedOverlap] = self.paginate_queryset(overlaps) or []
        return self.get_paginated_response(
            OverlapRowSerializer(overlap_rows(self.table, page), many=True).data
        )


class ReorderedList(TableScopedView):
    """The out-of-order versions of the last 30 days: no prefix of the history explains their state."""

    queryset = Table.objects.none()
    serializer_class = OutOfOrderSerializer
    pagination_class = SequencePaging

    @extend_schema(parameters=[PageRequestSerializer], responses=OutOfOrderSerializer(many=True))
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        parse_query(request, PageRequestSerializer)
        versions = find_out_of_order(self.table, overlaps_of(self.table)).versions
        page: Sequence[OutOfOrderVersion] = self.paginate_queryset(versions) or []
        return self.get_paginated_response(
            OutOfOrderSerializer(rows_of_versions(self.table, page), many=True).data
        )


def _proposal(table: Table, settings: dict[str, Any]) -> Proposal:
    return proposal_of(table, _properties(settings), _columns(settings))


def _properties(settings: dict[str, Any]) -> dict[str, str]:
    named = {
        LEVEL: settings.get("level"),
        VECTORS: _word(settings.get("deletion_vectors")),
        ROW_TRACKING: _word(settings.get("row_tracking")),
    }
    return {name: value for name, value in named.items() if value is not None}


def _columns(settings: dict[str, Any]) -> tuple[str, ...] | None:
    text = settings.get("clustering_columns")
    if text is None:
        return None
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _word(setting: bool | None) -> str | None:
    return None if setting is None else str(setting).lower()


def _isolation(request: Request, table: Table, proposal: Proposal) -> dict[str, Any]:
    settings, columns = proposal.properties, proposal.clustering
    readers = streams_reading(table, request.user) if proposal else ()
    overlaps, pairs = overlaps_of(table), list_observed_pairs(table)
    return {
        "level": table.isolation_level,
        "is_set": table.isolation_level_is_set,
        "promise": PROMISES.get(table.isolation_level, ""),
        "deletion_vectors": table.deletion_vectors,
        "row_tracking": table.row_tracking,
        "clustering_columns": table.clustering_columns,
        "resolves_feature_enablement": resolves_enablement(table),
        "row_level_eligible": table.row_level_eligible,
        "row_level_reason": table.row_level_reason,
        "promises": PROMISES,
        "impact": impact_of(table, settings, columns, readers) if proposal else None,
        "forecast": _forecast(table, proposal, overlaps, pairs) if proposal else None,
        "cells": table_matrix(table, propose_setting(table, proposal), overlaps, pairs),
        "overlaps": overlaps,
        "history": settings_history(table, overlaps, _HISTORY),
    }


def _forecast(
    table: Table, proposal: Proposal, overlaps: Overlaps, pairs: Sequence[ObservedPair]
) -> LevelEffect | None:
    return effect_of(table, proposal, overlaps, pairs, find_out_of_order(table, overlaps))


def _set(request: Request, table: Table, proposal: Proposal, reason: str) -> Response:
    check_if_match(request, state_of(table))  # an answered request needs none: it is done
    kind, parameters = proposal.job
    job = request_job(
        table=table,
        kind=kind,
        parameters=parameters,
        requested_by=caller(request),
        reason=reason,
    )
    return accept_job(request, job)


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
    kind = serializers.CharField(help_text="`aborted` or `resolved`.")
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
    aborted = serializers.IntegerField(help_text="Writes that would certainly be aborted.")
    passed = serializers.IntegerField()
    open = serializers.IntegerField(help_text="Undecidable.")
    added = serializers.IntegerField(help_text="Writes that committed and would be aborted.")
    spared = serializers.IntegerField(help_text="Writes that were aborted and would pass.")
    ms = Int64Field()
    size_bytes = Int64Field()
    uncosted = serializers.IntegerField(
        help_text="Additional conflicts whose time is not recorded."
    )


class WhatIfSerializer(serializers.Serializer[Any]):
    """A range of versions under another setting."""

    level = serializers.CharField()
    row_level = serializers.BooleanField()
    first = serializers.IntegerField()
    last = serializers.IntegerField()
    commits = CommitVerdictSerializer(many=True)
    conflicts = ConflictVerdictSerializer(many=True)
    not_replayed = serializers.ListField(
        child=serializers.IntegerField(), help_text="Versions whose commit is not fully recorded."
    )
    is_capped = serializers.BooleanField(
        help_text="true: only the latest 2,000 conflicts were evaluated."
    )
    aborted_now = serializers.IntegerField()
    totals = TotalsSerializer(many=True)
    pairs = PairChangeSerializer(many=True)
    overlaps = OverlapSerializer(many=True)


class WhatIfRequestSerializer(SwimLaneRequestSerializer):
    """The other setting; omitted parts are the table's own."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    row_level = serializers.BooleanField(required=False, allow_null=True, default=None)


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


class Concurrency(TableScopedView):
    """The writers' transactions from read version to commit: aborted attempts, resolved conflicts, reordered appends."""

    serializer_class = SwimLaneSerializer

    @extend_schema(parameters=[ConcurrencyRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Filter by outcome, writer, operation or partition; `pick` one to see its overlaps."""
        parameters, table = parse_query(request, ConcurrencyRequestSerializer), self.table
        whole = swim_lane(table, parameters.get("first"), parameters.get("last"))
        by = LaneFilter(
            *(parameters.get(name, "") for name in ("outcome", "writer", "operation", "partition"))
        )
        return Response(SwimLaneSerializer(_swim_lane(table, whole, by, parameters["pick"])).data)


class ConcurrencyLanes(TableScopedView):
    """The numbers of commits of each writer that landed and were aborted, by bucket of versions."""

    serializer_class = LaneSumsSerializer

    @extend_schema(parameters=[LaneSumsRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        parameters, table = parse_query(request, LaneSumsRequestSerializer), self.table
        last = parameters.get("last", table.version or 0)
        only = LaneFilter(writer=parameters["writer"], operation=parameters["operation"])
        by_operation = parameters["by"] == "operation"
        sums = lane_sums(table, parameters["first"], last, by_operation=by_operation, only=only)
        return Response(LaneSumsSerializer(sums).data)


def _swim_lane(table: Table, whole: SwimLane, by: LaneFilter, key: str) -> dict[str, Any]:
    data, counts = filter_lane(table, whole, by)
    landed = [bar.finished_at for bar in whole.bars if bar.version is not None and bar.finished_at]
    return {
        "first": data.first,
        "last": data.last,
        "lanes": data.lanes,
        "counts": counts,
        "bars": data.bars,
        "running": data.running,
        "joints": data.joints,
        "reordered": data.reordered,
        "other_settings": other_settings(table, whole),
        "around": navigator(table, min(landed, default=None), timezone.now()),
        "picked": lane_path(table, whole, key) if key else None,
    }
