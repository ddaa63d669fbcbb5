"""The audit log, for maintainers of all tables."""

from auditlog.models import LogEntry
from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.generics import ListAPIView

from lakeui.api.fields import ObjectField
from lakeui.api.table_views import require
from lakeui.monitoring.filters import ACTS, THINGS, AuditFilter, trail


class AuditEntrySerializer(serializers.ModelSerializer[LogEntry]):
    """Who did what to which object; `refused` is the code of a refusal."""

    at = serializers.DateTimeField(source="timestamp")
    who = serializers.CharField(source="actor.username", default=None, allow_null=True)
    address = serializers.CharField(source="remote_addr", allow_null=True)
    act = serializers.SerializerMethodField()
    thing = serializers.SerializerMethodField()
    object_id = serializers.CharField(source="object_pk")
    name = serializers.CharField(source="object_repr")
    changes = ObjectField(source="changes_dict")
    did = serializers.SerializerMethodField()
    refused = serializers.SerializerMethodField()

    class Meta:
        model = LogEntry
        fields = [
            "id",
            "at",
            "who",
            "address",
            "act",
            "thing",
            "object_id",
            "name",
            "changes",
            "did",
            "refused",
        ]

    def get_act(self, entry: LogEntry) -> str:
        return str(ACTS[entry.action])

    def get_thing(self, entry: LogEntry) -> str:
        model = entry.content_type.model
        return str(THINGS.get(model, model))

    def get_did(self, entry: LogEntry) -> str | None:
        return (entry.additional_data or {}).get("did")

    def get_refused(self, entry: LogEntry) -> str | None:
        return (entry.additional_data or {}).get("refused")


class AuditList(ListAPIView[LogEntry]):
    """Every change that people and programs requested, and every refused one, latest first."""

    queryset = LogEntry.objects.none()
    serializer_class = AuditEntrySerializer
    filterset_class = AuditFilter

    def get_queryset(self) -> QuerySet[LogEntry]:
        require(self.request, "maintain")
        return trail().order_by("-timestamp")
