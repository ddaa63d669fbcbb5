"""Moments put together by the hour, in UTC, by the database itself."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.db.models import CharField, Func

_READ_AS = "%Y-%m-%d %H"


class UtcHour(Func):
    """The hour of a time, as text that sorts: `2026-11-22 09`.

    SQLite stores times as such text. Django's truncation would call Python for each row.
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
    """Return the start of an hour from its text."""
    return datetime.strptime(text, _READ_AS).replace(tzinfo=UTC)
