"""Tables that cannot be read, or that need compacting, cleaning or a sync of the mirror."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.db.models import Case, CharField, Q, Value, When

from lakeui.catalog.access import visible_tables
from lakeui.catalog.health import MANY_SMALL, VACUUM_DUE
from lakeui.catalog.models import Table
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, CheckItems, Finder
from lakeui.monitoring.checks import QUIET_MIRROR, AttentionCheck


def table_items(asked: AttentionRequest) -> Iterator[CheckItems]:
    """One trouble a table, the worst; small files, the most first."""
    here = visible_tables(asked.user).annotate(trouble=_trouble(asked)).exclude(trouble="")
    troubles: dict[str, list[tuple[int, str, int]]] = {}
    for trouble, small, name, pk in here.order_by().values_list(
        "trouble", "small_file_count", "name", "pk"
    ):
        troubles.setdefault(trouble, []).append((-small, name, pk))
    first = {
        check: [pk for *_, pk in sorted(rows)[: asked.most]] for check, rows in troubles.items()
    }
    tables = asked.tables_by_id({pk for pks in first.values() for pk in pks})
    for check in _OF_TABLES:
        if check in troubles:
            some = [_build_item(check, tables[pk]) for pk in first[check] if pk in tables]
            yield check, len(troubles[check]), some


def quiet_tables(asked: AttentionRequest) -> Iterator[CheckItems]:
    """Tables that were not synced lately, the longest ago first: at worst all of them."""
    late = visible_tables(asked.user).filter(
        mirror_error_code="", mirrored_at__lt=asked.now - QUIET_MIRROR
    )
    told = asked.exclude_muted(AttentionCheck.MIRROR_QUIET, late, "pk")
    first, count = asked.first_of(told.order_by("mirrored_at"))
    check = AttentionCheck.MIRROR_QUIET
    yield check, count, [_build_item(check, table) for table in first]


_OF_TABLES: Mapping[AttentionCheck, tuple[str, ...]] = {
    AttentionCheck.UNREACHABLE: ("mirror_error_code", "mirror_error", "mirror_tries", "version"),
    AttentionCheck.SMALL_FILES: ("small_file_count", "file_count", "last_optimize_at"),
    AttentionCheck.VACUUM_DUE: ("dead_bytes", "dead_file_count", "last_vacuum_at"),
    AttentionCheck.MIRROR_QUIET: ("version",),
}
_BEGAN = {
    AttentionCheck.UNREACHABLE: "mirror_failed_at",
    AttentionCheck.VACUUM_DUE: "vacuum_from",
    AttentionCheck.MIRROR_QUIET: "mirrored_at",
}


def _build_item(check: AttentionCheck, table: Table) -> AttentionItem:
    facts = {name: getattr(table, name) for name in _OF_TABLES[check]}
    began: datetime | None = getattr(table, _BEGAN[check]) if check in _BEGAN else None
    return AttentionItem(check=check, table=table, since=began, facts=facts)


def _trouble(asked: AttentionRequest) -> Case:
    of_each = (
        (AttentionCheck.UNREACHABLE, ~Q(mirror_error_code="")),
        (AttentionCheck.SMALL_FILES, MANY_SMALL),
        (AttentionCheck.VACUUM_DUE, VACUUM_DUE),
    )
    told = (
        When(wrong & ~Q(pk__in=asked.muted.list_muted_tables(check)), then=Value(check.value))
        for check, wrong in of_each
        if not asked.muted.hides(check)
    )
    return Case(*told, default=Value(""), output_field=CharField())


FINDERS: tuple[Finder, ...] = (
    (
        frozenset(
            {AttentionCheck.UNREACHABLE, AttentionCheck.SMALL_FILES, AttentionCheck.VACUUM_DUE}
        ),
        table_items,
    ),
    (frozenset({AttentionCheck.MIRROR_QUIET}), quiet_tables),
)
