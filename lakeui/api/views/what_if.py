"""A table's own history under another isolation level, or told apart by rows or not."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.conflicts.isolation import IsolationLevel
from lakeui.api.filtering import asked
from lakeui.api.serializers.what_if import WhatIfRequestSerializer, WhatIfSerializer
from lakeui.api.views.of_table import OfTable
from lakeui.conflicts.replay.overlaps import pair_changes, replay
from lakeui.conflicts.replay.recorded_history import latest_versions, within
from lakeui.conflicts.replay.what_if import DEFAULT_VERSIONS

_ANSWER = (
    "level",
    "row_level",
    "first",
    "last",
    "commits",
    "conflicts",
    "not_replayed",
    "is_capped",
)


class WhatIf(OfTable):
    """Recorded commits and conflicts under another isolation level, or with rows told apart or not."""

    serializer_class = WhatIfSerializer

    @extend_schema(parameters=[WhatIfRequestSerializer])
    def get(self, request: Request, table_id: int) -> Response:  # noqa: ARG002
        """A verdict is passes, conflict, or undecidable with the reason."""
        table, wanted = self.table, asked(request, WhatIfRequestSerializer)
        first, last = latest_versions(table, DEFAULT_VERSIONS)
        row_level = wanted["row_level"]
        level = wanted.get("level") or table.isolation_level or IsolationLevel.WRITE_SERIALIZABLE
        found = replay(
            table,
            IsolationLevel(level),
            row_level=table.row_level_eligible if row_level is None else row_level,
            versions=within(table, wanted.get("first", first), wanted.get("last", last)),
        )
        answer = found.answer
        body = {
            **{name: getattr(answer, name) for name in _ANSWER},
            "lost_now": found.lost_now,
            "totals": found.totals,
            "pairs": pair_changes(found.overlaps),
            "overlaps": found.overlaps,
        }
        return Response(WhatIfSerializer(body).data)
