"""The versions that landed around a span: times, and whether blind. Transactions overlap them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from lakeui.catalog.models import Table

_BEFORE = 1_000  # how far before the span a read version is followed


@dataclass(frozen=True, slots=True)
class CommittedVersions:
    """Moment and blindness by version, as far as the mirror holds them."""

    moments: Mapping[int, datetime | None]
    blind: Mapping[int, bool]

    def moment(self, version: int | None) -> datetime | None:
        """Return the commit time of a version."""
        return None if version is None else self.moments.get(version)

    def count_overlaps(
        self, read_version: int | None, end: int | None, *, appends_count: bool
    ) -> tuple[int | None, int | None]:
        """Count the versions after the read version, up to `end`, and the exempt ones among them.

        Exempt are blind appends, unless they count for the transaction. None: the read version, or
        a landed version, is not recorded.
        """
        if read_version is None or end is None:
            return None, None
        versions = range(read_version + 1, end + 1)
        if appends_count:
            return len(versions), 0
        recorded = [self.blind[version] for version in versions if version in self.blind]
        return len(versions), sum(recorded) if len(recorded) == len(versions) else None


def load_versions_around(
    table: Table, read: Iterable[int | None], first: int, last: int
) -> CommittedVersions:
    """Load the versions from the earliest read one, within bounds, to `last`: one query."""
    versions = {version for version in read if version is not None}
    low = max(min({*versions, first}), first - _BEFORE)
    far = {version for version in versions if version < low}
    rows = table.commits.filter(Q(version__range=(low, last)) | Q(version__in=far))
    commits = list(rows.order_by().values_list("version", "committed_at", "is_blind_append"))
    return CommittedVersions(
        {version: moment for version, moment, _ in commits},
        {version: bool(blind) for version, _, blind in commits},
    )
