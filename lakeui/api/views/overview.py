"""The lake at a glance, since a moment."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.fields import Int64Field, RecordedField
from lakeui.api.filtering import asked
from lakeui.monitoring import overview as lake

_NEWS = 50


class OverviewRequestSerializer(serializers.Serializer[Any]):
    """From when on."""

    since = serializers.DateTimeField(required=False, help_text="24 hours ago, if not given.")


class LosingPairSerializer(serializers.Serializer[Any]):
    """Operations that met, the loser's first."""

    loser = RecordedField()
    winner = RecordedField()
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class NewsSerializer(serializers.Serializer[Any]):
    """What is new on one table. `first` and `last` are its new versions."""

    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    commits = serializers.IntegerField()
    first = serializers.IntegerField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    escaped = serializers.IntegerField()
    absorbed = serializers.IntegerField()
    failed_jobs = serializers.IntegerField()


class OverviewSerializer(serializers.Serializer[Any]):
    """Sums over the tables you may see, and what happened on them since."""

    since = serializers.DateTimeField()
    table_count = serializers.IntegerField()
    unhealthy_count = serializers.IntegerField()
    eligible_count = serializers.IntegerField()
    file_count = serializers.IntegerField()
    size_bytes = Int64Field()
    commit_count = serializers.IntegerField()
    job_count = serializers.IntegerField()
    failed_job_count = serializers.IntegerField()
    escaped = serializers.IntegerField()
    absorbed = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    pairs = LosingPairSerializer(many=True)
    changed_table_count = serializers.IntegerField()
    news = NewsSerializer(many=True, help_text="The first 50 tables, what went wrong first.")


class Overview(GenericAPIView[Any]):
    """The lake at a glance: sums, and what is new since a moment, table by table."""

    serializer_class = OverviewSerializer

    @extend_schema(parameters=[OverviewRequestSerializer])
    def get(self, request: Request) -> Response:
        user = caller(request)
        since = asked(request, OverviewRequestSerializer).get("since")
        since = since or timezone.now() - timedelta(hours=24)
        whole, happened = lake.lake_of(user), lake.activity(user, since)
        news = lake.news(user, since, _NEWS)
        met = happened.conflicts
        body = {
            "since": since,
            "table_count": whole.table_count,
            "unhealthy_count": whole.unhealthy_count,
            "eligible_count": whole.eligible_count,
            "file_count": whole.file_count,
            "size_bytes": whole.size_bytes,
            "commit_count": happened.commit_count,
            "job_count": happened.job_count,
            "failed_job_count": happened.failed_job_count,
            "escaped": met.escaped,
            "absorbed": met.absorbed,
            "wasted_ms": met.wasted_ms,
            "wasted_bytes": met.wasted_bytes,
            "pairs": met.pairs,
            "changed_table_count": news.table_count,
            "news": news.first,
        }
        return Response(OverviewSerializer(body).data)
