"""Conflict errors of other engines: pasted by people, reported by pipelines."""

from typing import Any

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from engine.conflict_facts import Rule
from lakeui.api.authentication import caller, refuse_changes
from lakeui.api.fields import (
    Int64Field,
    ObjectField,
    OptionalTextField,
    RecordedChoiceField,
    RecordedField,
)
from lakeui.api.listing import parse_body
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.table_views import require
from lakeui.catalog.access import visible_tables
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.reports.history import pair_history
from lakeui.conflicts.reports.links import LinkedReport, explain_report, record_report
from lakeui.conflicts.reports.messages import MAX_REPORT_CHARS
from lakeui.conflicts.reports.verdict import verdict_of


class ExplainRequestSerializer(RequestSerializer):
    """The error's text. `record` keeps it among the table's conflicts.

    `read_version` and `operation` describe the aborted write where the text does not.
    """

    text = serializers.CharField(max_length=MAX_REPORT_CHARS, trim_whitespace=False)
    table = OptionalTextField(max_length=255, help_text="Its id or name.")
    record = serializers.BooleanField(required=False, default=False)
    read_version = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=0, max_value=2**53 - 1
    )
    operation = OptionalTextField(max_length=100, help_text="MERGE, say.")


class MarkSerializer(serializers.Serializer[Any]):
    """The position of a fact in the text: its characters from `start` up to `end`."""

    number = serializers.IntegerField()
    fact = serializers.CharField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class ReportVerdictSerializer(serializers.Serializer[Any]):
    """The verdict. `check`: the rule's position among `check_count`; null if there is none."""

    headline = serializers.CharField()
    did = serializers.CharField(
        help_text="What the winning commit did: the words before the table's name."
    )
    then = serializers.CharField(
        help_text="What the winning commit did: the words after the table's name."
    )
    ignored_rows = serializers.IntegerField(
        allow_null=True,
        help_text="New rows of the winning commit that this write would have missed.",
    )
    rule = RecordedChoiceField(list(Rule))
    check = serializers.IntegerField(allow_null=True)
    check_count = serializers.IntegerField()
    why = RecordedField(allow_null=True)
    decided_by = serializers.CharField()
    decided_why = serializers.CharField()
    retry = serializers.CharField()


class PairHistorySerializer(serializers.Serializer[Any]):
    """Losses of the pair on the table in 30 days; `passes` would have passed had rows decided."""

    current_operation = RecordedField(allow_null=True, help_text="null: any aborted write.")
    winner_operation = serializers.CharField()
    aborted = serializers.IntegerField()
    aborted_lately = serializers.IntegerField(help_text="Aborted writes of the last 24 hours.")
    passes = serializers.IntegerField()
    undecidable = serializers.IntegerField()
    wasted_ms = Int64Field()


class ExplanationSerializer(serializers.Serializer[Any]):
    """The meaning of the text. `conflict` is null if it reports none: see `recognized` then."""

    conflict = ObjectField(allow_null=True)
    format = RecordedField(allow_null=True, help_text="The engine whose message format it is.")
    marks = MarkSerializer(many=True)
    verdict = ReportVerdictSerializer(allow_null=True)
    pair = PairHistorySerializer(allow_null=True)
    more = serializers.IntegerField(help_text="Other conflicts in the same text.")
    recognized = serializers.ListField(child=serializers.CharField())
    table_id = serializers.IntegerField(allow_null=True)
    table = serializers.CharField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    found_by = RecordedField(
        help_text="The fact by which the winning commit was found in the mirror."
    )
    conflict_id = serializers.IntegerField(
        allow_null=True, help_text="The id of the recorded conflict."
    )


class ConflictExplain(GenericAPIView[Conflict]):
    """Explain a conflict error of delta-spark, Databricks or delta-rs, whole or inside a log."""

    queryset = Conflict.objects.none()
    serializer_class = ExplanationSerializer
    changes_nothing = True  # unless `record` is requested

    @extend_schema(
        request=ExplainRequestSerializer,
        responses={200: ExplanationSerializer, 201: ExplanationSerializer},
    )
    def post(self, request: Request) -> Response:
        """Explain an error: 200; with `record`, 201 and the recorded conflict's `Location`."""
        asked = parse_body(request, ExplainRequestSerializer)
        table = _table(request, asked["table"])
        linked = explain_report(asked["text"], visible_tables(request.user), table)
        if not asked["record"]:
            return Response(_body(linked, None))
        refuse_changes(request)
        require(request, "write", linked.table)
        return _record_response(request, linked, asked)


def _record_response(request: Request, linked: LinkedReport, asked: dict[str, Any]) -> Response:
    kept = record_report(
        linked,
        caller(request),
        read_version=asked["read_version"],
        operation=asked["operation"].upper(),
    )
    if kept is None:
        return Response(_body(linked, None))
    where = reverse("api:conflict", kwargs={"conflict_id": kept.pk}, request=request)
    return Response(_body(linked, kept), status.HTTP_201_CREATED, headers={"Location": where})


def _table(request: Request, text: str) -> Table | None:
    if not text:
        return None
    is_id = is_row_id(text)
    named = Q(name=text) | Q(pk=int(text)) if is_id else Q(name=text)
    table = visible_tables(request.user).filter(named).first()
    if table is None:
        raise ValidationError({"table": ["This table does not exist."]})
    return table


def _body(linked: LinkedReport, kept: Conflict | None) -> dict[str, Any]:
    report, table = linked.report, linked.table
    body = {
        "conflict": report.conflict.as_dict() if report.conflict else None,
        "format": report.format,
        "marks": report.marks,
        "verdict": verdict_of(linked),
        "pair": pair_history(linked),
        "more": report.more,
        "recognized": list(report.recognized),
        "table_id": table.pk if table else None,
        "table": table.name if table else None,
        "winning_version": linked.winning_version,
        "found_by": linked.how or None,
        "conflict_id": kept.pk if kept else None,
    }
    return dict(ExplanationSerializer(body).data)
