"""A table dropped and replaced by another at its location: versions begin at 0 again.

Records about the former table's versions, by jobs, conflicts and reports, are kept, but describe no
current version. The mirror itself is deleted when the replacement is noticed.
"""

from datetime import datetime

from django.db.models import Q

from lakeui.catalog.hours import CLOCKS_DIFFER
from lakeui.catalog.models import Table


def filter_current_table(table: Table, at: str) -> Q:
    """Return the condition for rows about the current table; `at` is the field with their end.

    Rows without that time match, and so do all rows if the beginning of the log is not mirrored.
    """
    if table.begun_at is None:
        return Q()
    return Q(**{at: None}) | Q(**{f"{at}__gte": table.begun_at - CLOCKS_DIFFER})


def is_former(table: Table, at: datetime | None) -> bool:
    """Whether an event that ended at `at` belongs to a former table."""
    begun_at = table.begun_at
    return at is not None and begun_at is not None and at < begun_at - CLOCKS_DIFFER
