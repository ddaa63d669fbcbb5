"""Reports of other programs about their transactions."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.authentication import caller
from lakeui.api.fields import ObjectField
from lakeui.api.listing import parse_body
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.throttles import AnonymousThrottle, ReportThrottle
from lakeui.catalog.access import tables_to_report
from lakeui.conflicts.models import PipelineTransaction
from lakeui.conflicts.pipelines import (
    KINDS,
    MAX_NUMBER,
    BatchResult,
    Event,
    Refusal,
    Writer,
    take_events,
)

MAX_EVENTS = 200
MAX_TEXT = 20_000
MAX_WASTED_BYTES = 2**43
MAX_DROPPED = 2**31 - 1


class WriterSerializer(RequestSerializer):
    """The reporter. `application` is the pipeline's name."""

    application = serializers.CharField(max_length=100)
    host = serializers.CharField(max_length=255, required=False, allow_blank=True)
    user = serializers.CharField(max_length=255, required=False, allow_blank=True)
    engine = serializers.CharField(max_length=100, required=False, allow_blank=True)


class PipelineEventSerializer(RequestSerializer):
    """An event of one transaction, identified for ever by the transaction's id and `sequence`.

    Every event has all known facts of the transaction. In addition, `resolved` has the engine's
    facts in `conflict`, `aborted` has them with the name of the `exception`, `committed` has the
    `version`, and `reported` has the `text` of another engine's error.
    """

    kind = serializers.ChoiceField(choices=KINDS)
    table = serializers.CharField(
        max_length=2000, help_text="The table's location, or its registered name."
    )
    txn_id = serializers.CharField(max_length=100)
    run_id = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="The id that all attempts of the run share.",
    )
    sequence = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    at = serializers.DateTimeField(help_text="The time of the event.")
    started_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="The start of the transaction."
    )
    attempt = serializers.IntegerField(min_value=1, max_value=1000, required=False)
    operation = serializers.CharField(max_length=100, required=False, allow_blank=True)
    statement = serializers.CharField(
        max_length=MAX_TEXT, required=False, allow_blank=True, trim_whitespace=False
    )
    read_version = serializers.IntegerField(
        min_value=-1, max_value=MAX_NUMBER, required=False, allow_null=True
    )
    version = serializers.IntegerField(
        min_value=0, max_value=MAX_NUMBER, required=False, allow_null=True
    )
    exception = serializers.CharField(max_length=100, required=False, allow_blank=True)
    conflict = ObjectField(required=False, allow_null=True)
    wasted_bytes = serializers.IntegerField(min_value=0, max_value=MAX_WASTED_BYTES, required=False)
    text = serializers.CharField(
        max_length=MAX_TEXT, required=False, allow_blank=True, trim_whitespace=False
    )


class PipelineBatchSerializer(RequestSerializer):
    """Events in the order of occurrence. `dropped`: how many the program could not keep."""

    writer = WriterSerializer()
    events = serializers.ListField(
        child=PipelineEventSerializer(), allow_empty=False, max_length=MAX_EVENTS
    )
    dropped = serializers.IntegerField(
        min_value=0, max_value=MAX_DROPPED, required=False, default=0
    )


class RefusalSerializer(serializers.Serializer[Refusal]):
    """A refused event: its index in the batch, the field at fault, and the remedy."""

    index = serializers.IntegerField()
    field = serializers.CharField()
    message = serializers.CharField()
    remedy = serializers.CharField()


class TakenSerializer(serializers.Serializer[BatchResult]):
    """The outcome of a batch. `duplicates` had been stored before."""

    accepted = serializers.IntegerField()
    duplicates = serializers.IntegerField()
    refused = RefusalSerializer(many=True)


class PipelineEvents(GenericAPIView[Any]):
    """Transactions of programs elsewhere, as they report them."""

    queryset = PipelineTransaction.objects.none()
    serializer_class = TakenSerializer
    throttle_classes = [ReportThrottle, AnonymousThrottle]
    takes_reports = True

    @extend_schema(request=PipelineBatchSerializer, responses={200: TakenSerializer})
    def post(self, request: Request) -> Response:
        """Report events. Repeat the request if its answer was lost: each event is stored once.

        The role reporter is enough. Events of tables that are unregistered, or not yours to report
        on, are in `refused` with the reason; if no event of a batch is stored, 422.
        """
        asked = parse_body(request, PipelineBatchSerializer)
        taken = take_events(
            [Event(**event) for event in asked["events"]],
            Writer(**asked["writer"]),
            caller(request),
            tables_to_report(request.user),
            dropped=asked["dropped"],
        )
        if not taken.accepted and not taken.duplicates:
            raise ValidationError(_faults(taken.refused))
        return Response(TakenSerializer(taken).data)


def _faults(refused: list[Refusal]) -> dict[str, list[ErrorDetail]]:
    return {
        f"events.{refusal.index}.{refusal.field}": [
            ErrorDetail(f"{refusal.message} {refusal.remedy}", code="not_kept")
        ]
        for refusal in refused
    }
