"""All tables of this directory."""

from tests.engine.foreign import (  # noqa: F401 - each registers its own
    by_engines,
    checkpoints,
    logs,
    names,
    values,
    vectors,
)
from tests.engine.foreign.tables import FOREIGN_TABLES

READABLE = [table for table in FOREIGN_TABLES.values() if not (table.refusal or table.unreadable)]
UNREADABLE = [table for table in FOREIGN_TABLES.values() if table.unreadable]
WITH_ODD_FILES = [
    table
    for table in READABLE
    if table.write.__module__ not in (checkpoints.__name__, logs.__name__)
]
REFUSED = [table for table in FOREIGN_TABLES.values() if table.refusal]
