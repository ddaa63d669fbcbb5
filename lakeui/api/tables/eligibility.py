"""Row-level concurrency of a table: participants, obstacles, fixes."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.listing import refuse_unknown
from lakeui.api.table_views import TableScopedView
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.assessment import eligibility_of
from lakeui.conflicts.eligibility.report import eligibility_report
from lakeui.jobs.earlier_runs import throughput_of
from lakeui.jobs.streams import streams_reading


class StepSerializer(serializers.Serializer[Any]):
    """A condition of row-level concurrency. POST `job` to the table's jobs to fix it."""

    name = serializers.CharField()
    holds = serializers.BooleanField()
    evidence = serializers.CharField()
    fix = RecordedField(allow_null=True)
    cost = RecordedField(allow_null=True)
    job = ObjectField(allow_null=True)


class RuntimeSerializer(serializers.Serializer[Any]):
    """Another engine's behavior on this table."""

    runtime = serializers.CharField()
    takes_part = serializers.BooleanField()
    reason = serializers.CharField()
    limits = RecordedField(allow_null=True)


class FixCostSerializer(serializers.Serializer[Any]):
    """The cost of a fix: rewritten data, jobs and streams that stop, requirements of clients."""

    rewrites_bytes = Int64Field()
    rewrites_files = serializers.IntegerField()
    duration_ms = Int64Field(
        allow_null=True, help_text="The median of `runs` earlier jobs. null: there are none."
    )
    runs = serializers.IntegerField()
    runs_are_own = serializers.BooleanField(help_text="false: these jobs ran on other tables.")
    aborted_jobs = serializers.IntegerField()
    streams = serializers.IntegerField()
    protocol = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="The new reader and writer version. null: they stay the same.",
    )
    locked_out = serializers.ListField(child=serializers.CharField())
    undo = RecordedField(allow_null=True)


class ConditionLineSerializer(serializers.Serializer[Any]):
    """A condition with its evidence, `raw` as in the log; `affected` of `asked` writes break it."""

    name = serializers.CharField()
    state = serializers.CharField(
        help_text="`holds`, `fails`, `optional`, `some fall back` or `not known`."
    )
    raw = RecordedField(allow_null=True)
    evidence = RecordedField(allow_null=True)
    fix = RecordedField(allow_null=True)
    job = ObjectField(
        allow_null=True, help_text="The body of a POST request to the table's jobs that fixes it."
    )
    statement = RecordedField(allow_null=True, help_text="The SQL of the rewrite that fixes it.")
    rewrite = RecordedField(allow_null=True, help_text="How to write such a statement instead.")
    cost = FixCostSerializer(allow_null=True)
    cost_text = RecordedField(allow_null=True)
    affected = serializers.IntegerField()
    asked = serializers.IntegerField()


class AbortedWritesSerializer(serializers.Serializer[Any]):
    """Aborted writes of 30 days, and their outcome at row level."""

    aborted = serializers.IntegerField()
    passes = serializers.IntegerField()
    still_aborted = serializers.IntegerField()
    undecidable = serializers.IntegerField()
    saved_ms = Int64Field(help_text="Time wasted by the writes that would pass.")
    saved_bytes = Int64Field()
    is_capped = serializers.BooleanField(help_text="Only the latest are counted.")


class RuntimeCellSerializer(serializers.Serializer[Any]):
    """A condition on one runtime."""

    condition = serializers.CharField()
    state = serializers.CharField(help_text="`holds`, `fails`, `some` or `not offered`.")
    text = serializers.CharField()


class RuntimeColumnSerializer(serializers.Serializer[Any]):
    """A runtime: `by_rows` are the operations decided at row level there, null if at file level."""

    runtime = serializers.CharField()
    limits = RecordedField(allow_null=True)
    cells = RuntimeCellSerializer(many=True)
    takes_part = serializers.BooleanField()
    reason = serializers.CharField()
    by_rows = RecordedField(allow_null=True)
    writes = serializers.IntegerField(help_text="Commits of the last 30 days.")


class EvidenceSerializer(serializers.Serializer[Any]):
    """Evidence of 30 days of writes and of aborted writes, beside the table's own conditions."""

    aborted_writes = AbortedWritesSerializer()
    of_table = ConditionLineSerializer(many=True)
    of_writes = ConditionLineSerializer(many=True)
    runtimes = RuntimeColumnSerializer(many=True, help_text="With the table's present settings.")
    mended = RuntimeColumnSerializer(many=True, help_text="After the fixes.")
    writes = serializers.IntegerField(help_text="Commits that were checked.")
    overlapping_writes = serializers.IntegerField(
        help_text="Writes with a condition that overlapped with others."
    )
    unplaced = serializers.IntegerField(help_text="Commits by other runtimes.")
    is_capped = serializers.BooleanField(help_text="Only the latest commits were checked.")
    locked_out_writers = serializers.ListField(
        child=serializers.CharField(),
        help_text="Programs that wrote recently and do not support deletion vectors.",
    )


class EligibilitySerializer(serializers.Serializer[Any]):
    """Whether the table takes part in row-level concurrency, and why. null: not mirrored yet."""

    eligible = serializers.BooleanField(allow_null=True)
    obstacle = RecordedField(allow_null=True)
    traces_moves = serializers.BooleanField(help_text="Whether the rows of OPTIMIZE can be traced.")
    conditions = StepSerializer(many=True)
    runtimes = RuntimeSerializer(many=True)
    locked_out = serializers.ListField(child=serializers.CharField())
    avoided = serializers.IntegerField(help_text="Conflicts resolved at row level so far.")
    avoided_lately = serializers.IntegerField(
        help_text="Conflicts resolved at row level in the last 30 days."
    )
    evidence = EvidenceSerializer(allow_null=True)


class EligibilityDetail(TableScopedView):
    """Row-level concurrency: each condition with evidence, the fix and its cost."""

    serializer_class = EligibilitySerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        """Return the mirrored conditions, beside 30 days of writes and aborted writes."""
        refuse_unknown(request, frozenset())
        readers = streams_reading(self.table, request.user)
        report = eligibility_report(
            self.table, throughput_of(self.table), readers, Reader(request.user)
        )
        eligibility = report.eligibility if report else eligibility_of(self.table)
        return Response(EligibilitySerializer({**asdict(eligibility), "evidence": report}).data)
