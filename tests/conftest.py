"""Settings of every test: a separate home, key and database, and no external services.

They are set here, before Django loads, so that plain `pytest` works in a fresh clone. The database
is SQLite in a file, because worker processes join it; `TEST_DATABASE_URL` names another one.
"""

import atexit
import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MEMORY = Path("/dev/shm")  # noqa: S108 - where a log may be flushed to disk at no cost
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 << 30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

_HOME = Path(tempfile.mkdtemp(prefix="lakeui-tests-"))
(_HOME / "static").mkdir()  # where collected files would be; WhiteNoise warns without it
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

os.environ.update(
    DJANGO_SETTINGS_MODULE="lakeui.settings",
    LAKEUI_HOME=str(_HOME),
    LAKEUI_EMBEDDED="1",
    SECRET_KEY="for-tests-only-for-tests-only-for-tests-only",
    BROKER_URL="memory://",
    DATABASE_URL=os.environ.get("TEST_DATABASE_URL", f"sqlite:///{_HOME / 'lakeui.sqlite3'}"),
)

# Spark's many small jobs end before a second compiler would pay for itself; without one, a JVM reserves
# so little code cache that it has to flush it after fifty tests
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m",
)
os.environ.setdefault("XDG_RUNTIME_DIR", str(_HOME))  # PostgreSQL's wheel requires it

import django  # noqa: E402 - the environment comes first
import hypothesis  # noqa: E402
import pyarrow as pa  # noqa: E402
import pytest  # noqa: E402
from django.conf import settings  # noqa: E402

if settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = str(_HOME / "test.sqlite3")
settings.WHITENOISE_AUTOREFRESH = True  # files are found when asked for, not by each new client
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
django.setup()  # conftests below import models
logging.getLogger().setLevel(logging.WARNING)  # two lines of each request are written for nobody

from django.apps import apps  # noqa: E402
from django.contrib.auth.models import Group  # noqa: E402
from django.db.models.signals import post_migrate  # noqa: E402
from django.dispatch import receiver  # noqa: E402
from django.test.utils import teardown_databases  # noqa: E402

from lakeui.catalog.roles import Role  # noqa: E402
from tests import migrated, reference  # noqa: E402
from tests.shares import Run  # noqa: E402

migrated.share_with_children(_HOME)

pa.set_cpu_count(1)  # files of five rows are read faster by one thread than by a pool

# a busy machine is slow, which is no failure; `make stress` draws hundreds of examples
for profile, examples in (("default", 20), ("stress", 500)):
    hypothesis.settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@receiver(post_migrate, sender=apps.get_app_config("catalog"))
def make_role_groups(using: str, **_: object) -> None:
    """Restore the groups that migrations create, because a test that empties the database removes them.

    Such a test may run before others in the same process, if its group has a process of its own.
    """
    for role in Role:
        Group.objects.using(using).get_or_create(name=role.label)


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker: Any, django_db_modify_db_settings: None
) -> Iterator[None]:
    """Set up the database as pytest-django does, but migrate in one process of a run only."""
    with django_db_blocker.unblock():
        databases = migrated.set_up_databases()
    yield
    with django_db_blocker.unblock():
        teardown_databases(databases, verbosity=0)


@pytest.fixture(scope="session", name="reference")
def reference_directory() -> Path:
    """Return the directory of the reference material; skip the test if it is absent."""
    if not reference.DIRECTORY.is_dir():
        pytest.skip(reference.ABSENT)
    return reference.DIRECTORY


def pytest_itemcollected(item: pytest.Item) -> None:
    """Apply the marks `reference` and `spark` to every test that uses the fixture of that name."""
    for name in {"reference", "spark"} & {*_fixtures_of(item)}:
        item.add_marker(name)


def pytest_configure(config: pytest.Config) -> None:
    """Select the generated requests to run, because they are drawn during collection.

    Collection leaves no garbage, and looking for it takes an eighth of the time.
    """
    Run.select(config.getoption("markexpr"))
    gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Run Spark tests first, in two processes, so that only two JVMs warm up; then the slowest tests.

    A run on another database keeps only the tests that use a database, and the first case of each.

    Each other group (`xdist_group`) also has one process, and its module starts its services once.
    So do the tests of a file that have no time limit of their own: xdist takes as long to hand out
    ten thousand tests one by one as to run half of them. Tests that share the test's database stay in
    Django's order. xdist 3.8 writes its groups where pytest 9.2 no longer looks: this writes them
    where both look.
    """
    yield
    if "TEST_DATABASE_URL" in os.environ:
        items[:] = _first_cases([item for item in items if _uses_database(item)])
    items.sort(key=_seconds_given, reverse=True)
    if config.getoption("loadgroup", default=False):
        on_spark = [item for item in items if "spark" in _fixtures_of(item)]
        turns = {
            path: turn % 2 for turn, path in enumerate(dict.fromkeys(i.path for i in on_spark))
        }
        items.sort(key=lambda item: "spark" in _fixtures_of(item), reverse=True)
        for item in items:
            group = item.get_closest_marker("xdist_group")
            if "spark" in _fixtures_of(item):
                item._id = item.id.parse(f"{item.nodeid}@spark{turns[item.path]}")
            elif group is not None:
                item._id = item.id.parse(f"{item.nodeid}@{group.args[0]}")
            elif item.get_closest_marker("timeout") is None:
                kind = "transactional" if _empties_database(item) else "tests"
                item._id = item.id.parse(
                    f"{item.nodeid}@{kind} of {item.path.parent.name} {item.path.stem}"
                )


def _seconds_given(item: pytest.Item) -> float:
    """Return the test's time limit: tests that may take minutes start first.

    A test that empties the database stays behind the tests that need its contents.
    """
    limit = item.get_closest_marker("timeout")
    if limit is None or _empties_database(item) or "spark" in _fixtures_of(item):
        return 0
    return float(limit.args[0])


def _empties_database(item: pytest.Item) -> bool:
    database = item.get_closest_marker("django_db")
    return "transactional_db" in _fixtures_of(item) or bool(database and database.kwargs)


def _uses_database(item: pytest.Item) -> bool:
    return "db" in _fixtures_of(item) or item.get_closest_marker("django_db") is not None


def _first_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first item of each test function, or every one in a hunt."""
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    return items if Run.is_hunt else list(reversed(first.values()))


def _fixtures_of(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def pytest_collection_finish() -> None:
    """Freeze imported and collected objects: searching them for garbage costs a fifth of the time.

    Raise the threshold of 700 objects, because a single page exceeds it.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
