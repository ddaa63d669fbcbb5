"""Find tables that a repeated search found and nobody registered, for those who may register them."""

from django.db.models import Count, Min

from lakeui.catalog.access import may
from lakeui.catalog.unregistered_tables import list_attention_tables
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, FoundItems
from lakeui.monitoring.conditions import Condition


def find_new_tables(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find the searches with such tables, those with the most first."""
    condition = Condition.NEW_TABLES
    if request.muted.hides(condition) or not may(request.user, "maintain"):
        return [], 0
    by_search = list_attention_tables().order_by().values_list("discovery_id", "discovery__root")
    rows = list(
        by_search.annotate(n=Count("pk"), since=Min("found_at")).order_by("-n", "discovery_id")
    )
    items = [
        AttentionItem(
            condition=condition,
            since=since,
            facts={"discovery_id": pk, "root": root, "new_tables": count},
        )
        for pk, root, count, since in rows[: request.most]
    ]
    return items, len(rows)
