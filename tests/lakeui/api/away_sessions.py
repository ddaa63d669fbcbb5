"""Sessions with an unreachable database; the `SESSION_ENGINE` of a test."""

from typing import Any

from django.contrib.sessions.backends import db
from django.db import OperationalError


class SessionStore(db.SessionStore):
    """Session storage whose every read fails like an unreachable database."""

    def load(self) -> dict[str, Any]:
        raise OperationalError
