"""A table's quiet hours, for scheduling its maintenance."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.fields import Int64Field
from lakeui.api.filtering import refuse_unknown
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.quiet_hours import QuietHours, quiet_hours


class HoursSerializer(serializers.Serializer[QuietHours]):
    """Hours of the day in UTC; `commits` of `all_commits` of the last 30 days changed rows in them."""

    start = serializers.IntegerField()
    end = serializers.IntegerField()
    commits = Int64Field()
    all_commits = Int64Field()
    cron = serializers.CharField(help_text="Every day in the middle of them.")


class QuietHoursSerializer(serializers.Serializer[Any]):
    """The quiet hours; null for too few commits, or for a table equally busy at any hour."""

    quiet_hours = HoursSerializer(allow_null=True)


class QuietHoursOfTable(TableScopedView):
    """The three hours of the day with the fewest commits that changed rows."""

    serializer_class = QuietHoursSerializer

    @extend_schema(responses={200: QuietHoursSerializer})
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        refuse_unknown(request, frozenset())
        hours = quiet_hours(self.table, timezone.now())
        return Response(QuietHoursSerializer({"quiet_hours": hours}).data)
