"""Repeated conflicts: pairs of statements, their cost and trend, and who works on them."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.authentication import caller
from lakeui.api.fields import Int64Field, OptionalTextField, RecordedField
from lakeui.api.listing import SequencePaging, parse_body, parse_query
from lakeui.api.serializers.request import RangeRequestSerializer, RequestSerializer
from lakeui.api.table_views import require
from lakeui.catalog.hours import RANGES, TimeRange
from lakeui.conflicts.filters import STATES, RepeatedConflictFilter, visible_pairs
from lakeui.conflicts.models import StatementPair
from lakeui.monitoring.models import Mute
from lakeui.monitoring.mutes import mute_pair
from lakeui.monitoring.repeated_conflicts import (
    TRENDS,
    describe_repeated,
    select_repeated,
    work_on_pair,
)

_FIRST, _LONGEST = next(iter(RANGES)), list(RANGES)[-1]


class RepeatedConflictSerializer(serializers.Serializer[Any]):
    """The aborted writes of two statements in a range. A `?` stands for each number or text.

    `counts` are by the hour for 24h and by the day in UTC otherwise, the latest last. `fix` is the
    remedy suggested for the most of them, `fixed` of `times`.
    """

    id = serializers.IntegerField(source="pair.pk")
    table_id = serializers.IntegerField(source="pair.table_id")
    table = serializers.CharField(source="pair.table.name")
    current_operation = RecordedField(source="pair.current_operation")
    current_statement = RecordedField(
        help_text="The aborted statement; null if it names tables that you may not see."
    )
    winner_operation = RecordedField(source="pair.winner_operation")
    winner_statement = RecordedField(source="pair.winner_statement")
    times = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    counts = serializers.ListField(child=serializers.IntegerField())
    trend = serializers.ChoiceField(choices=TRENDS)
    fix = RecordedField(help_text="The kind of the remedy.")
    fix_text = RecordedField()
    fixed = serializers.IntegerField()
    state = serializers.ChoiceField(choices=STATES)
    assignee = serializers.CharField(source="pair.assignee.username", allow_null=True, default=None)
    note = RecordedField(source="pair.note")
    muted_until = serializers.DateTimeField(allow_null=True)
    mute_id = serializers.IntegerField(allow_null=True)


class PairRangeSerializer(RangeRequestSerializer):
    """The time up to now whose conflicts are summed."""

    range = serializers.ChoiceField(choices=list(RANGES), default=_LONGEST)


class PairWorkSerializer(RequestSerializer):
    """The people who work on a pair. `assignee`: a user name, "" for nobody.

    Until `muted_until`, 90 days at most, its conflicts count in no condition that needs attention.
    """

    is_known = serializers.BooleanField(required=False)
    assignee = serializers.CharField(required=False, allow_blank=True, max_length=150)
    note = serializers.CharField(required=False, allow_blank=True, max_length=500)
    muted_until = serializers.DateTimeField(required=False, allow_null=True)
    reason = OptionalTextField(max_length=500, help_text="Of the mute.")


class RepeatedConflictList(ListAPIView[Any]):
    """Pairs of statements with aborted writes in the range, the costliest first."""

    queryset = StatementPair.objects.none()
    serializer_class = RepeatedConflictSerializer
    filterset_class = RepeatedConflictFilter
    pagination_class = SequencePaging

    def get_queryset(self) -> QuerySet[Any]:
        time_range = RANGES.get(self.request.query_params.get("range", _FIRST), RANGES[_FIRST])
        return select_repeated(caller(self.request), time_range, timezone.now())

    def list(self, request: Request, *_args: Any, **_kwargs: Any) -> Response:
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        time_range = RANGES[request.query_params.get("range") or _FIRST]
        described = describe_repeated(rows or (), caller(request), time_range, timezone.now())
        return self.get_paginated_response(RepeatedConflictSerializer(described, many=True).data)


class RepeatedConflictDetail(GenericAPIView[Any]):
    """One pair of statements with its aborted writes in the range; 404 if it had none."""

    queryset = StatementPair.objects.none()
    serializer_class = RepeatedConflictSerializer
    pagination_class = None

    @extend_schema(parameters=[PairRangeSerializer])
    def get(self, request: Request, pair_id: int) -> Response:
        name = parse_query(request, PairRangeSerializer)["range"]
        return Response(self._describe(request, pair_id, RANGES[name]))

    @extend_schema(
        request=PairWorkSerializer,
        parameters=[PairRangeSerializer],
        responses={200: RepeatedConflictSerializer},
    )
    def patch(self, request: Request, pair_id: int) -> Response:
        """Say that it is known, assign it, or mute it, which takes a maintainer; it is audited."""
        name = parse_query(request, PairRangeSerializer)["range"]
        self._describe(request, pair_id, RANGES[name])  # or 404
        pair = visible_pairs(caller(request)).select_related("table", "assignee").get(pk=pair_id)
        require(request, "write", pair.table)
        given, now = parse_body(request, PairWorkSerializer), timezone.now()
        reason = given.pop("reason")
        if "muted_until" in given:
            require(request, "maintain", pair.table)
            if until := given.pop("muted_until"):
                mute_pair(pair, until, by=caller(request), now=now, reason=reason)
            elif mute := Mute.objects.filter(statement_pair=pair).first():
                mute.delete()
        assignee = pair.assignee.get_username() if pair.assignee else ""
        values: dict[str, Any] = {
            "is_known": pair.is_known,
            "assignee": assignee,
            "note": pair.note,
        }
        work_on_pair(pair, **values | given)
        return Response(self._describe(request, pair_id, RANGES[name]))

    def _describe(self, request: Request, pair_id: int, time_range: TimeRange) -> Any:
        user, now = caller(request), timezone.now()
        row = get_object_or_404(select_repeated(user, time_range, now), pk=pair_id)
        (described,) = describe_repeated([row], user, time_range, now)
        return RepeatedConflictSerializer(described).data
