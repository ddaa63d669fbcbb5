"""The lake at a glance since a moment, what needs attention, the glossary, and the search."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lakeui.api.authentication import caller
from lakeui.api.fields import Int64Field, OptionalTextField, RecordedField
from lakeui.api.listing import parse_body, parse_query, refuse_unknown
from lakeui.api.request_headers import answer_once
from lakeui.api.schema import IDEMPOTENCY_KEY
from lakeui.api.serializers.conflicts import HourCostSerializer
from lakeui.api.serializers.monitoring import (
    AttentionItemSerializer,
    AttentionSerializer,
    MuteRequestSerializer,
    MuteSerializer,
)
from lakeui.api.table_views import require
from lakeui.catalog.access import visible_tables
from lakeui.catalog.glossary import TERMS
from lakeui.catalog.hours import commits_since
from lakeui.monitoring import overview as lake
from lakeui.monitoring.attention import CONDITIONS, attention
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.mutes import group_mutes, mute, mutes_now, visible_mutes
from lakeui.monitoring.overview import (
    FirstStepKind,
    first_steps,
    list_running_jobs,
    news,
    table_counts,
)
from lakeui.monitoring.recent_conflicts import day_of, partition_costs
from lakeui.monitoring.search import MAX_TEXT, search

_NEWS, _OF_A_CHECK, _PARTITIONS = 50, 3, 200

_MOST = 50


class OverviewRequestSerializer(serializers.Serializer[Any]):
    """The start of the range."""

    since = serializers.DateTimeField(required=False, help_text="24 hours ago by default.")


class AbortedPairSerializer(serializers.Serializer[Any]):
    """The operations of a conflict, the aborted one first."""

    current = RecordedField()
    winner = RecordedField()
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class NewsSerializer(serializers.Serializer[Any]):
    """The news of one table. `first` and `last` are its new versions."""

    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    commits = serializers.IntegerField()
    first = serializers.IntegerField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    failed_jobs = serializers.IntegerField()


class RunningSerializer(serializers.Serializer[Any]):
    """A job at work. `expected_at`: the median of earlier runs of its kind on its table; null: fewer than 3."""

    job_id = serializers.UUIDField(source="job.pk")
    kind = serializers.CharField(source="job.kind")
    table = serializers.CharField(source="job.table.name")
    state = serializers.CharField(source="job.state")
    started_at = serializers.DateTimeField(source="job.started_at", allow_null=True)
    attempts = serializers.IntegerField(source="job.attempts")
    stage = serializers.CharField(source="job.progress_stage")
    done = Int64Field(source="job.progress_done")
    total = Int64Field(source="job.progress_total")
    unit = serializers.CharField(source="job.progress_unit")
    expected_at = serializers.DateTimeField(allow_null=True)
    expected_from_runs = serializers.IntegerField(source="usual.runs", default=0)


class WaitingSerializer(serializers.Serializer[Any]):
    """A job in the queue."""

    job_id = serializers.UUIDField(source="pk")
    kind = serializers.CharField()
    table = serializers.CharField(source="table.name")
    created_at = serializers.DateTimeField()


class DueSerializer(serializers.Serializer[Any]):
    """A schedule and when it fires next."""

    schedule_id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    kind = serializers.CharField()
    table = serializers.CharField(source="table.name")
    owner = serializers.CharField(source="owner.username")
    next_due_at = serializers.DateTimeField()


class PartitionCostSerializer(serializers.Serializer[Any]):
    """The cost of one pair of operations in a partition; null: the conflict names none."""

    table_id = serializers.IntegerField(allow_null=True)
    table = RecordedField(allow_null=True)
    partition = RecordedField(allow_null=True)
    current = RecordedField()
    winner = RecordedField()
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class TableCountsSerializer(serializers.Serializer[Any]):
    """The numbers of tables that need attention, had an aborted write in 24 hours, or lack row-level concurrency."""

    attention = serializers.IntegerField()
    aborted = serializers.IntegerField()
    no_row_level = serializers.IntegerField()


class FirstStepSerializer(serializers.Serializer[Any]):
    """A first step on this installation, and whether it is done."""

    step = serializers.ChoiceField(choices=list(FirstStepKind))
    done = serializers.BooleanField()


class OverviewSerializer(serializers.Serializer[Any]):
    """Sums over the tables visible to you, and their news since a time."""

    since = serializers.DateTimeField()
    table_count = serializers.IntegerField(source="lake.table_count")
    unhealthy_count = serializers.IntegerField(source="lake.unhealthy_count")
    eligible_count = serializers.IntegerField(source="lake.eligible_count")
    file_count = serializers.IntegerField(source="lake.file_count")
    size_bytes = Int64Field(source="lake.size_bytes")
    commit_count = serializers.IntegerField(source="activity.commit_count")
    growth_bytes = Int64Field(
        source="activity.growth_bytes",
        allow_null=True,
        help_text="Bytes that commits added minus bytes that they removed, by hour. null: you may "
        "not see all tables.",
    )
    job_count = serializers.IntegerField(source="activity.job_count")
    failed_job_count = serializers.IntegerField(source="activity.failed_job_count")
    aborted = serializers.IntegerField(source="activity.conflicts.aborted")
    resolved = serializers.IntegerField(source="activity.conflicts.resolved")
    wasted_ms = Int64Field(source="activity.conflicts.wasted_ms")
    wasted_bytes = Int64Field(source="activity.conflicts.wasted_bytes")
    pairs = AbortedPairSerializer(source="activity.conflicts.pairs", many=True)
    changed_table_count = serializers.IntegerField(source="new.table_count")
    news = NewsSerializer(
        source="new.first",
        many=True,
        help_text="The first 50 tables. Tables with problems come first.",
    )
    table_counts = TableCountsSerializer()
    attention_count = serializers.IntegerField(source="told.count")
    attention = AttentionItemSerializer(
        source="told.items", many=True, help_text="The first 3 of each check. attention/ lists all."
    )
    running_count = serializers.IntegerField(source="jobs.running_count")
    running = RunningSerializer(
        source="jobs.running", many=True, help_text="The 12 jobs that started first."
    )
    queued_count = serializers.IntegerField(source="jobs.queued_count")
    queued = WaitingSerializer(
        source="jobs.queued", many=True, help_text="The 4 jobs that run next."
    )
    due = DueSerializer(
        source="jobs.due", many=True, help_text="The 4 schedules that are due next."
    )
    commit_count_24_hours = serializers.IntegerField()
    cost_by_hour = HourCostSerializer(many=True, help_text="Of the last 24 hours.")
    cost_by_partition = PartitionCostSerializer(
        many=True,
        help_text="The 200 costliest of the latest 1,000 writes that were aborted in 24 hours.",
    )
    first_steps = FirstStepSerializer(
        many=True, help_text="Only for maintainers and admins, until the last step is done."
    )


class Overview(GenericAPIView[Any]):
    """The lake at a glance: sums, and the news since a time, table by table."""

    serializer_class = OverviewSerializer

    @extend_schema(parameters=[OverviewRequestSerializer])
    def get(self, request: Request) -> Response:
        user = caller(request)
        since = parse_query(request, OverviewRequestSerializer).get("since")
        now = timezone.now()
        day = day_of(user, now)
        since = since or day.since
        whole, happened = lake.lake_of(user), lake.activity(user, since, day)
        body = {
            "since": since,
            "lake": whole,
            "activity": happened,
            "new": news(user, since, _NEWS),
            "table_counts": table_counts(user, day, whole),
            "told": attention(user, now, day, group_mutes(mutes_now(now)), _OF_A_CHECK),
            "jobs": list_running_jobs(user),
            "commit_count_24_hours": happened.commit_count
            if since == day.since
            else commits_since(user, day.since),
            "cost_by_hour": [
                {"pair": pair, "hour": hour, "wasted_ms": cost}
                for (pair, hour), cost in day.cost_by_hour.items()
            ],
            "cost_by_partition": partition_costs(user, day.since).rows[:_PARTITIONS],
            "first_steps": first_steps(user),
        }
        return Response(OverviewSerializer(body).data)


class AttentionView(GenericAPIView[Any]):
    """Conditions that need attention, worst first; the checks with their thresholds; mutes."""

    serializer_class = AttentionSerializer

    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        user, now = caller(request), timezone.now()
        mutes = mutes_now(now)
        attention_now = attention(user, now, day_of(user, now), group_mutes(mutes), _MOST)
        checks = [
            {
                "name": condition.value,
                "looks_for": condition.label,
                "severity": rule.severity,
                "tells": rule.tells,
                "set_by": ", ".join(rule.settings) or "fixed",
                "remedy": rule.remedy,
                "count": attention_now.counts.get(condition, 0),
            }
            for condition, rule in CONDITIONS.items()
        ]
        body = {
            "count": attention_now.count,
            "items": attention_now.items,
            "checks": checks,
            "mutes": visible_mutes(mutes, user),
        }
        return Response(AttentionSerializer(body).data)


class MuteList(GenericAPIView[Mute]):
    """Checks muted for a while, for one table or for all."""

    queryset = Mute.objects.none()
    serializer_class = MuteSerializer

    @extend_schema(
        request=MuteRequestSerializer, responses={201: MuteSerializer}, parameters=[IDEMPOTENCY_KEY]
    )
    def post(self, request: Request) -> Response:
        """Mute for everybody of this installation; the audit log records it."""
        values = parse_body(request, MuteRequestSerializer)
        return answer_once(request, lambda: self._create_mute(request, values))

    def _create_mute(self, request: Request, values: dict[str, Any]) -> Response:
        pk, table = values["table_id"], None
        if pk is not None:
            table = get_object_or_404(visible_tables(request.user), pk=pk)
        require(request, "maintain", table)
        row = mute(
            Condition(values["check_name"]),
            table,
            values["until"],
            by=caller(request),
            now=timezone.now(),
            reason=values["reason"],
        )
        return Response(MuteSerializer(row).data, status.HTTP_201_CREATED)


class MuteDetail(GenericAPIView[Mute]):
    """One muted check."""

    queryset = Mute.objects.none()
    serializer_class = MuteSerializer

    @extend_schema(responses={204: None})
    def delete(self, request: Request, mute_id: int) -> Response:
        """Unmute it."""
        row = get_object_or_404(Mute.objects.select_related("table"), pk=mute_id)
        if row.table is not None:
            get_object_or_404(visible_tables(request.user), pk=row.table_id)
        require(request, "maintain", row.table)
        row.delete()
        return Response(status=status.HTTP_204_NO_CONTENT)


class TermSerializer(serializers.Serializer[Any]):
    """A term: words for one thing, and its meaning."""

    words = serializers.CharField()
    meaning = serializers.CharField(help_text="Plain text with `code` in backticks.")
    anchor = serializers.CharField(
        help_text="The anchor of the term on the page: /glossary/#anchor."
    )


class GlossarySerializer(serializers.Serializer[Any]):
    """All terms, in the order of the page."""

    terms = TermSerializer(many=True)


class Glossary(APIView):
    """The words of pages, REST, errors and docs, each with its meaning."""

    @extend_schema(responses={200: GlossarySerializer})
    def get(self, request: Request) -> Response:
        refuse_unknown(request, frozenset())
        return Response(GlossarySerializer({"terms": TERMS}).data)


class SearchRequestSerializer(serializers.Serializer[Any]):
    """A name, a version (v7, orders v7), an id or its first digits, or a word of an error."""

    q = OptionalTextField(max_length=MAX_TEXT)


class FoundTableSerializer(serializers.Serializer[Any]):
    """A table by its name or place."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    uri = serializers.CharField()
    version = serializers.IntegerField(allow_null=True)


class FoundVersionSerializer(serializers.Serializer[Any]):
    """A version of a table."""

    table_id = serializers.IntegerField()
    table = serializers.CharField(source="table.name")
    version = serializers.IntegerField()
    operation = serializers.CharField()
    committed_at = serializers.DateTimeField(allow_null=True)


class FoundJobSerializer(serializers.Serializer[Any]):
    """A job by its id, statement or error."""

    id = serializers.UUIDField()
    table = serializers.CharField(source="table.name")
    statement = serializers.CharField()
    state = serializers.CharField()


class FoundConflictSerializer(serializers.Serializer[Any]):
    """A conflict by its number, exception or message."""

    id = serializers.IntegerField()
    table = serializers.CharField(source="table.name", default=None, allow_null=True)
    exception = serializers.CharField()
    occurred_at = serializers.DateTimeField()


class FoundColumnSerializer(serializers.Serializer[Any]):
    """A column by its dotted name."""

    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    column = serializers.CharField(source="path")
    type = serializers.CharField()


class FoundWriterSerializer(serializers.Serializer[Any]):
    """A person or program that wrote to a table recently, and its latest version there."""

    name = serializers.CharField()
    table_id = serializers.IntegerField(source="table.pk")
    table = serializers.CharField(source="table.name")
    version = serializers.IntegerField()


class FoundSerializer(serializers.Serializer[Any]):
    """The first dozen of each; narrow the lists of tables, jobs and conflicts for all."""

    tables = FoundTableSerializer(many=True)
    columns = FoundColumnSerializer(many=True)
    versions = FoundVersionSerializer(many=True)
    jobs = FoundJobSerializer(many=True)
    conflicts = FoundConflictSerializer(many=True)
    writers = FoundWriterSerializer(many=True)


class Search(GenericAPIView[Any]):
    """Tables, columns, versions, jobs, conflicts and writers that match a text."""

    serializer_class = FoundSerializer

    @extend_schema(parameters=[SearchRequestSerializer])
    def get(self, request: Request) -> Response:
        text = parse_query(request, SearchRequestSerializer)["q"]
        return Response(FoundSerializer(search(caller(request), text)).data)
