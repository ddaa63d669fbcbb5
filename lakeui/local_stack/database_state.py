"""Whether the database is reachable and migrated, and the message of a command that it stopped."""

from django.db import DatabaseError, Error, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor


def unreachable_problem() -> str:
    """Return "" if the database answers, else the problem."""
    try:
        connection.ensure_connection()
        with connection.cursor() as cursor:
            connection.introspection.table_names(cursor)
    except Error as error:
        return f"The database is unreachable: {first_line(error)}."
    return ""


def migration_problem() -> str:
    """Return "" if a reachable database is migrated, else the problem."""
    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not waiting:
        return ""
    return "1 migration waits." if len(waiting) == 1 else f"{len(waiting)} migrations wait."


def explain_database_error(error: Error, command: str) -> str:
    """Return why the database ended a command, and the remedy; empty if the database is well.

    Args:
        error: the command's exception. Its connection is closed.
        command: its name; `migrate` is not told to migrate.
    """
    connection.close()
    if problem := unreachable_problem():
        return f"{problem} Check DATABASE_URL and that the database is running."
    if command != "migrate" and (problem := _not_migrated()):
        return f"The database is not migrated: {problem} Run manage.py migrate."
    if isinstance(error, OperationalError | InterfaceError):
        return (
            f"The database refused: {first_line(error)}. Check that it is not locked, "
            "read-only or full, and run the command again."
        )
    return ""


def first_line(error: Exception) -> str:
    """Return an error's first line without its full stop; its class if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _not_migrated() -> str:
    try:
        return migration_problem()
    except DatabaseError:
        return ""
