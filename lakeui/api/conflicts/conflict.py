"""One conflict: both sides, how to avoid it, conflicts like it, and whether the write landed later."""

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.generics import RetrieveAPIView

from lakeui.api.conflicts.conflicts import ConflictSerializer
from lakeui.api.fields import ObjectField
from lakeui.api.serializers.conflict_sides import (
    AdviceSerializer,
    SideSerializer,
    SimilarConflictSerializer,
)
from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.conflict_detail.advice import advice
from lakeui.conflicts.conflict_detail.both_sides import both_sides
from lakeui.conflicts.conflict_detail.later_commit import LaterCommit, find_later_commit
from lakeui.conflicts.conflict_detail.similar import neighbours, similar_conflicts
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict


class LandedLaterSerializer(serializers.Serializer[LaterCommit]):
    """The later commit of an aborted write: by its own job, or by a job that ran it again.

    `job_id` is null for a pipeline's own attempt.
    """

    version = serializers.IntegerField()
    job_id = serializers.UUIDField(allow_null=True)
    is_same_job = serializers.BooleanField()


class ConflictDetailSerializer(ConflictSerializer):
    """A conflict with both sides, how to avoid it, and conflicts like it.

    `facts` is the engine's record: files and rows touched by both, its remedies, and under
    `decision` the verdict of every check on every winning commit, both sides' files, and the counts
    and positions of the compared rows.
    """

    facts = ObjectField()
    current = SideSerializer(source="sides.current")
    winner = SideSerializer(source="sides.winner")
    advice = AdviceSerializer(many=True)
    similar = SimilarConflictSerializer(many=True, source="similar.conflicts")
    similar_is_capped = serializers.BooleanField(source="similar.is_capped")
    landed = LandedLaterSerializer(allow_null=True)
    previous_id = serializers.IntegerField(source="neighbours.previous", allow_null=True)
    next_id = serializers.IntegerField(source="neighbours.next", allow_null=True)

    class Meta(ConflictSerializer.Meta):
        fields = [
            *ConflictSerializer.Meta.fields,
            "order_column",
            "shared_low",
            "shared_high",
            "facts",
            "current",
            "winner",
            "advice",
            "similar",
            "similar_is_capped",
            "landed",
            "previous_id",
            "next_id",
        ]


class ConflictDetail(RetrieveAPIView[Conflict]):
    """One conflict with both sides, the files they share and the ranked remedies."""

    queryset = Conflict.objects.none()
    serializer_class = ConflictDetailSerializer
    lookup_url_kwarg = "conflict_id"

    def get_queryset(self) -> QuerySet[Conflict]:
        return visible_conflicts(self.request.user).select_related(
            "table", "job", "transaction__pipeline"
        )

    def get_object(self) -> Any:  # a conflict with related facts
        conflict, visible = super().get_object(), visible_conflicts(self.request.user)
        sides = both_sides(conflict, Reader(self.request.user))
        like = similar_conflicts(visible, conflict)
        vars(conflict).update(
            sides=sides,
            similar=like,
            advice=advice(conflict, sides, like),
            neighbours=neighbours(visible, conflict),
            landed=find_later_commit(conflict),
        )
        return conflict
