"""The test's database: the first process that needs it migrates it, the others copy it.

A migrated SQLite database is one file. Another database is migrated by each process, as Django
does it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection
from django.test.utils import setup_databases

_OF_THIS_RUN = "LAKEUI_TESTS_MIGRATED"


def share_with_children(home: Path) -> None:
    """Share the copy there with processes that this one starts, unless it shares one itself."""
    os.environ.setdefault(_OF_THIS_RUN, str(home / "migrated.sqlite3"))


def copy_for_process(target: Path) -> str:
    """Copy a migrated SQLite database there, for a process of its own; return its URL.

    The test's database must be set up (fixture `django_db_setup`).
    """
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(os.environ[_OF_THIS_RUN], target)
    target.chmod(0o600)
    return f"sqlite:///{target}"


def set_up_databases() -> list[Any]:
    """Return the test's databases, migrated, for `teardown_databases`."""
    if connection.vendor != "sqlite":
        return _set_up(keepdb=False)
    migrated = Path(os.environ[_OF_THIS_RUN])
    with _alone(migrated):
        if not migrated.exists():
            databases = _set_up(keepdb=False)
            with connection.cursor() as cursor:
                cursor.execute("VACUUM INTO %s", [str(migrated)])
            return databases
    shutil.copyfile(migrated, connection.settings_dict["TEST"]["NAME"])
    return _set_up(keepdb=True)


def _set_up(*, keepdb: bool) -> list[Any]:
    return setup_databases(verbosity=0, interactive=False, serialized_aliases=set(), keepdb=keepdb)


@contextmanager
def _alone(migrated: Path) -> Iterator[None]:
    """Run alone among the processes of this run while migrating."""
    with migrated.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
