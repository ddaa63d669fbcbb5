"""The settings that decide conflicts between statements, overlaps, and reordered versions."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflicts.isolation import IsolationLevel
from lakeui.api.caller import caller
from lakeui.api.filtering import parse_query
from lakeui.api.idempotency import answer_once
from lakeui.api.jobs.jobs import accept_job
from lakeui.api.preconditions import check_if_match, etag_of, state_of
from lakeui.api.schema import IDEMPOTENCY_KEY, IF_MATCH
from lakeui.api.sequence_paging import SequencePaging
from lakeui.api.serializers.isolation import (
    IsolationSerializer,
    MatrixRequestSerializer,
    MatrixSerializer,
    OutOfOrderSerializer,
    OverlapRowSerializer,
    OverlapsRequestSerializer,
    ReorderedRequestSerializer,
    SettingsChangeSerializer,
    SettingsSerializer,
)
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.table_views import TableScopedView, require
from lakeui.catalog.models import Table
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.isolation.effect import LevelEffect, effect_of
from lakeui.conflicts.isolation.level_impact import PROMISES, impact_of
from lakeui.conflicts.isolation.observed_pairs import ObservedPair, list_observed_pairs
from lakeui.conflicts.isolation.overlap_rows import overlap_rows
from lakeui.conflicts.isolation.overlaps import (
    CountedOverlap,
    Overlaps,
    latest_between,
    overlaps_of,
)
from lakeui.conflicts.isolation.pairs import compute_matrix, table_matrix
from lakeui.conflicts.isolation.proposal import (
    LEVEL,
    ROW_TRACKING,
    VECTORS,
    Proposal,
    proposal_of,
    propose_setting,
    resolves_enablement,
)
from lakeui.conflicts.isolation.reordering import (
    OutOfOrderVersion,
    find_out_of_order,
    rows_of_versions,
)
from lakeui.conflicts.isolation.settings_history import settings_history
from lakeui.jobs.requests import request_job
from lakeui.jobs.stream_readers import streams_reading

_HISTORY = 20
_MAX_OVERLAPS = 10_000


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
        form = SettingsChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        proposal = Proposal(_properties(form.validated_data), _columns(form.validated_data))
        if not proposal:
            fault = "Name a setting to change."
            raise serializers.ValidationError({"level": [fault]})
        reason = form.validated_data["reason"]
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

    @extend_schema(
        parameters=[ReorderedRequestSerializer], responses=OutOfOrderSerializer(many=True)
    )
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        parse_query(request, ReorderedRequestSerializer)
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
