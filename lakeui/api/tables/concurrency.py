"""Concurrent writers: the swim-lane."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.filtering import parse_query
from lakeui.api.serializers.concurrency import (
    ConcurrencyRequestSerializer,
    LaneSumsRequestSerializer,
    LaneSumsSerializer,
    SwimLaneSerializer,
)
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.models import Table
from lakeui.conflicts.lanes.narrowing import LaneFilter, filter_lane
from lakeui.conflicts.lanes.navigator import navigator
from lakeui.conflicts.lanes.other_settings import other_settings
from lakeui.conflicts.lanes.path import lane_path
from lakeui.conflicts.lanes.sums import lane_sums
from lakeui.conflicts.lanes.swim_lane import SwimLane, swim_lane


class Concurrency(TableScopedView):
    """Who wrote when, from read version to commit: aborted attempts, resolved conflicts, reordered appends."""

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
    """How many commits of each writer landed and were aborted, by bucket of versions."""

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
