"""Who may write at once: eligibility, isolation settings, pairs that met, the swim-lane."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflicts.isolation import IsolationLevel
from lakeui.api.caller import caller
from lakeui.api.filtering import refuse_unknown
from lakeui.api.idempotency import answer_once
from lakeui.api.preconditions import check_if_match, etag_of
from lakeui.api.schema import IDEMPOTENCY_KEY, IF_MATCH
from lakeui.api.serializers.concurrency import (
    EligibilitySerializer,
    IsolationSerializer,
    LaneSumsRequestSerializer,
    LaneSumsSerializer,
    MatrixRequestSerializer,
    MatrixSerializer,
    SettingsChangeSerializer,
    SettingsSerializer,
    SwimLaneRequestSerializer,
    SwimLaneSerializer,
    WhatIfRequestSerializer,
    WhatIfSerializer,
)
from lakeui.api.serializers.jobs import JobDetailSerializer
from lakeui.api.views.jobs import accepted
from lakeui.api.views.of_table import OfTable, require
from lakeui.catalog.models import Table
from lakeui.catalog.property_changes import settings_changes
from lakeui.conflicts.eligibility import eligibility_of
from lakeui.conflicts.lane_sums import lane_sums
from lakeui.conflicts.level_impact import LEVEL, PROMISES, ROW_TRACKING, VECTORS, impact_of
from lakeui.conflicts.observed import observed_pairs
from lakeui.conflicts.pairs import computed_matrix
from lakeui.conflicts.swim_lane import swim_lane
from lakeui.conflicts.what_if import DEFAULT_VERSIONS, latest_versions, what_if
from lakeui.jobs.requests import request_job

_HISTORY = 20


def asked(request: Request, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """The query string, checked; names that mean nothing are refused."""
    form = kind(data=request.query_params)
    refuse_unknown(request, set(form.fields))
    form.is_valid(raise_exception=True)
    return dict(form.validated_data)


class Eligibility(OfTable):
    """Row-level concurrency: each condition with evidence, the fix and what it costs."""

    serializer_class = EligibilitySerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        return Response(EligibilitySerializer(eligibility_of(self.table)).data)


class Isolation(OfTable):
    """The isolation level in force, and the settings that decide who conflicts."""

    serializer_class = IsolationSerializer

    @extend_schema(parameters=[SettingsSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Name settings to see in `impact` what changing them would do; nothing is changed."""
        wanted = _properties(asked(request, SettingsSerializer))
        body = IsolationSerializer(_isolation(self.table, wanted)).data
        return Response(body, headers={"ETag": etag_of(self.table)})

    @extend_schema(
        request=SettingsChangeSerializer,
        responses={202: JobDetailSerializer},
        parameters=[IF_MATCH, IDEMPOTENCY_KEY],
    )
    def patch(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """Change the settings by a job: 202 with its `Location`. Look at `impact` first."""
        table = self.table
        require(request, "maintain", table)
        form = SettingsChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = _properties(form.validated_data)
        if not wanted:
            fault = "Name a setting to change."
            raise serializers.ValidationError({"level": [fault]})
        check_if_match(request, etag_of(table))
        reason = form.validated_data["reason"]
        return answer_once(request, lambda: _set(request, table, wanted, reason))


class Matrix(OfTable):
    """Which statements can conflict on this table, computed, beside the pairs that met lately."""

    serializer_class = MatrixSerializer

    @extend_schema(parameters=[MatrixRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        wanted = asked(request, MatrixRequestSerializer)
        level = _level(self.table, wanted.get("level"))
        body = {
            "level": level,
            "computed": computed_matrix(self.table, level),
            "observed": observed_pairs(self.table, wanted["days"]),
        }
        return Response(MatrixSerializer(body).data)


class WhatIf(OfTable):
    """Recorded commits and conflicts under another isolation level, or with rows told apart or not."""

    serializer_class = WhatIfSerializer

    @extend_schema(parameters=[WhatIfRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """A verdict is passes, conflict, or undecidable with the reason."""
        wanted, table = asked(request, WhatIfRequestSerializer), self.table
        first, last = latest_versions(table, DEFAULT_VERSIONS)
        row_level = wanted["row_level"]
        answer = what_if(
            table,
            _level(table, wanted.get("level")),
            row_level=table.row_level_eligible if row_level is None else row_level,
            versions=(wanted.get("first", first), wanted.get("last", last)),
        )
        return Response(WhatIfSerializer(answer).data)


class Concurrency(OfTable):
    """Who wrote when, from read version to commit: losers, absorbed conflicts, reordered appends."""

    serializer_class = SwimLaneSerializer

    @extend_schema(parameters=[SwimLaneRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        wanted = asked(request, SwimLaneRequestSerializer)
        lane = swim_lane(self.table, wanted.get("first"), wanted.get("last"))
        return Response(SwimLaneSerializer(lane).data)


class ConcurrencyLanes(OfTable):
    """How many commits each writer landed and lost, by bucket of versions: thousands at a look."""

    serializer_class = LaneSumsSerializer

    @extend_schema(parameters=[LaneSumsRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        wanted, table = asked(request, LaneSumsRequestSerializer), self.table
        last = wanted.get("last", table.version or 0)
        by_operation = wanted["by"] == "operation"
        sums = lane_sums(table, wanted["first"], last, by_operation=by_operation)
        return Response(LaneSumsSerializer(sums).data)


def _level(table: Table, asked_for: str | None) -> IsolationLevel:
    return IsolationLevel(asked_for or table.isolation_level or IsolationLevel.WRITE_SERIALIZABLE)


def _properties(settings: dict[str, Any]) -> dict[str, str]:
    named = {
        LEVEL: settings.get("level"),
        VECTORS: _word(settings.get("deletion_vectors")),
        ROW_TRACKING: _word(settings.get("row_tracking")),
    }
    return {name: value for name, value in named.items() if value is not None}


def _word(setting: bool | None) -> str | None:
    return None if setting is None else str(setting).lower()


def _isolation(table: Table, wanted: dict[str, str]) -> dict[str, Any]:
    return {
        "level": table.isolation_level,
        "is_set": table.isolation_level_is_set,
        "promise": PROMISES.get(table.isolation_level, ""),
        "deletion_vectors": table.deletion_vectors,
        "row_tracking": table.row_tracking,
        "row_level_eligible": table.row_level_eligible,
        "row_level_reason": table.row_level_reason,
        "promises": PROMISES,
        "impact": impact_of(table, wanted) if wanted else None,
        "history": settings_changes(table, _HISTORY),
    }


def _set(request: Request, table: Table, wanted: dict[str, str], reason: str) -> Response:
    job = request_job(
        table=table,
        kind="set_properties",
        parameters={"properties": wanted},
        requested_by=caller(request),
        reason=reason,
    )
    return accepted(request, job)
