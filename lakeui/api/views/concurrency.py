"""Who may write at once, and who did: eligibility and the swim-lane."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.filtering import asked
from lakeui.api.serializers.concurrency import (
    EligibilitySerializer,
    LaneSumsRequestSerializer,
    LaneSumsSerializer,
    SwimLaneRequestSerializer,
    SwimLaneSerializer,
)
from lakeui.api.views.of_table import OfTable
from lakeui.conflicts.eligibility import eligibility_of
from lakeui.conflicts.lane_sums import lane_sums
from lakeui.conflicts.swim_lane import swim_lane


class Eligibility(OfTable):
    """Row-level concurrency: each condition with evidence, the fix and what it costs."""

    serializer_class = EligibilitySerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        return Response(EligibilitySerializer(eligibility_of(self.table)).data)


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
