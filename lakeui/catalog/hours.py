"""Moments put together by the hour, in UTC, by the database itself."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.db.models import CharField, Func

_READ_AS = "%Y-%m-%d %H"


class UtcHour(Func):
    """The hour that a moment lies in, as text that sorts: `2026-11-22 09`.

    SQLite keeps moments as such text. Truncating them, Django would have it call Python at each row.
    """

    template = "to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24')"
    output_field = CharField()
    arity = 1

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:  # noqa: ANN401
        """Cut it out."""
        return self.as_sql(
            compiler, connection, template="substr(%(expressions)s, 1, 13)", **context
        )


@lru_cache(maxsize=2_048)
def hour_named(text: str) -> datetime:
    """When an hour begins that was found so."""
    return datetime.strptime(text, _READ_AS).replace(tzinfo=UTC)
