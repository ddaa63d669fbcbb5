"""Health of the installation: its required parts, and whether they answer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from amqp.exceptions import AMQPError
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.loader import get_template
from kombu.exceptions import KombuError, OperationalError

from lakeui.celery import app

BROKER_TIMEOUT_S = 2


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One part, whether it answers, and the remedy if it does not. No address, no secret."""

    name: str
    ok: bool
    remedy: str = ""


def readiness() -> tuple[HealthCheck, ...]:
    """Check the database, its migrations and the broker now."""
    return tuple(
        HealthCheck(name, ok := answers(), "" if ok else remedy) for name, answers, remedy in _PARTS
    )


def broker_answers() -> bool:
    """Whether a message could be sent."""
    try:
        with app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_S)
    except (OSError, OperationalError, KombuError, AMQPError):
        return False
    return True


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _is_migrated() -> bool:
    try:
        return _migrations() <= MigrationRecorder(connection).applied_migrations().keys()
    except DatabaseError:
        return False


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """Return the migrations of this code, read once: a probe may come at any rate."""
    return frozenset(MigrationLoader(connection).graph.nodes)


def _can_render() -> bool:
    try:
        get_template("base.html")
    except (TemplateDoesNotExist, TemplateSyntaxError):
        return False
    return True


_PARTS: tuple[tuple[str, Callable[[], bool], str], ...] = (
    ("database", _database_answers, "Check DATABASE_URL and that the database is running."),
    ("migrations", _is_migrated, "Run manage.py migrate."),
    ("pages", _can_render, "Install the complete package: its templates are missing."),
    (
        "broker",
        broker_answers,
        "Check BROKER_URL and that the broker is running. Until then, jobs wait.",
    ),
)
