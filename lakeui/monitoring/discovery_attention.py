"""Tables that a repeated search found and nobody registered, for those who may register them."""

from collections.abc import Iterator

from django.db.models import Count, Min

from lakeui.catalog.access import may
from lakeui.catalog.unregistered_tables import list_attention_tables
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, CheckItems, Finder
from lakeui.monitoring.checks import AttentionCheck


def new_tables(asked: AttentionRequest) -> Iterator[CheckItems]:
    """One item a search, those with the most tables first."""
    check = AttentionCheck.NEW_TABLES
    if asked.muted.hides(check) or not may(asked.user, "maintain"):
        return
    by_search = list_attention_tables().order_by().values_list("discovery_id", "discovery__root")
    rows = list(
        by_search.annotate(n=Count("pk"), since=Min("found_at")).order_by("-n", "discovery_id")
    )
    some = [
        AttentionItem(
            check=check, since=since, facts={"discovery_id": pk, "root": root, "new_tables": count}
        )
        for pk, root, count, since in rows[: asked.most]
    ]
    yield check, len(rows), some


FINDERS: tuple[Finder, ...] = ((frozenset({AttentionCheck.NEW_TABLES}), new_tables),)
