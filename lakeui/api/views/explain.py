"""Conflict errors of other engines: pasted by people, reported by pipelines."""

from typing import Any

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from lakeui.api.caller import caller
from lakeui.api.permissions import refuse_changes
from lakeui.api.serializers.explain import ExplainRequestSerializer, ExplanationSerializer
from lakeui.api.views.of_table import require
from lakeui.catalog.access import visible_tables
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.reports.history import pair_history
from lakeui.conflicts.reports.links import LinkedReport, explain_report, record_report
from lakeui.conflicts.reports.verdict import verdict_of


class ConflictExplain(GenericAPIView[Conflict]):
    """Explain a conflict error of delta-spark, Databricks or delta-rs, whole or inside a log."""

    queryset = Conflict.objects.none()
    serializer_class = ExplanationSerializer
    changes_nothing = True  # unless `record` is asked for

    @extend_schema(
        request=ExplainRequestSerializer,
        responses={200: ExplanationSerializer, 201: ExplanationSerializer},
    )
    def post(self, request: Request) -> Response:
        """200; with `record`, 201 and the recorded conflict's `Location`."""
        wanted = ExplainRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        asked = wanted.validated_data
        table = _table(request, asked["table"])
        linked = explain_report(asked["text"], visible_tables(request.user), table)
        if not asked["record"]:
            return Response(_body(linked, None))
        refuse_changes(request)
        require(request, "write", linked.table)
        return _recorded(request, linked, asked)


def _recorded(request: Request, linked: LinkedReport, asked: dict[str, Any]) -> Response:
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
    is_id = text.isascii() and text.isdigit() and len(text) < 19
    named = Q(name=text) | Q(pk=int(text)) if is_id else Q(name=text)
    table = visible_tables(request.user).filter(named).first()
    if table is None:
        raise ValidationError({"table": ["There is no such table."]})
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
        "recognised": list(report.recognised),
        "table_id": table.pk if table else None,
        "table": table.name if table else None,
        "winning_version": linked.winning_version,
        "found_by": linked.how or None,
        "conflict_id": kept.pk if kept else None,
    }
    return dict(ExplanationSerializer(body).data)
