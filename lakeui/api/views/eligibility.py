"""Row-level concurrency of a table: who takes part, what stands in the way, what mends it."""

from dataclasses import asdict

from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.filtering import refuse_unknown
from lakeui.api.serializers.eligibility import EligibilitySerializer
from lakeui.api.views.of_table import OfTable
from lakeui.conflicts.assessment import eligibility_of
from lakeui.conflicts.eligibility.report import eligibility_report
from lakeui.jobs.reading_streams import streams_reading
from lakeui.jobs.throughput import throughput_of


class Eligibility(OfTable):
    """Row-level concurrency: each condition with evidence, the fix and what it costs."""

    serializer_class = EligibilitySerializer

    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002 - from the address
        """The conditions as mirrored, beside what 30 days of writes and losses tell."""
        refuse_unknown(request, frozenset())
        readers = streams_reading(self.table, request.user)
        report = eligibility_report(self.table, throughput_of(self.table), readers)
        found = report.eligibility if report else eligibility_of(self.table)
        return Response(EligibilitySerializer({**asdict(found), "evidence": report}).data)
