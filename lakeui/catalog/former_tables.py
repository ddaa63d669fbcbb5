"""A table is dropped, and another made in its place: its versions begin at 0 again.

What is on record of the former table's versions, by jobs, conflicts and reports, stays and tells of no
version that is there now. The mirror itself is forgotten when that is noticed.
"""

from datetime import datetime

from django.db.models import Q

from lakeui.catalog.clocks import CLOCKS_DIFFER
from lakeui.catalog.models import Table


def filter_current_table(table: Table, at: str) -> Q:
    """Of rows about versions of a table those of the one that is there; `at` is when theirs ended.

    Rows without that time are taken, and all where the beginning of the log is not mirrored.
    """
    if table.begun_at is None:
        return Q()
    return Q(**{at: None}) | Q(**{f"{at}__gte": table.begun_at - CLOCKS_DIFFER})


def is_former(table: Table, at: datetime | None) -> bool:
    """Whether what ended then was about a table that is not there any more."""
    begun_at = table.begun_at
    return at is not None and begun_at is not None and at < begun_at - CLOCKS_DIFFER
