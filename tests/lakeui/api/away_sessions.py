"""Sessions with an unreachable database; the `SESSION_ENGINE` of a test."""

from typing import Any

from django.contrib.sessions.backends import db
from django.db import OperationalError


class SessionStore(db.SessionStore):
    """Whoever asks for what one holds learns that nothing answers."""

    def load(self) -> dict[str, Any]:
        raise OperationalError
