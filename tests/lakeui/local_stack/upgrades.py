"""Databases of earlier releases: which migrations each had, and what becomes of its rows.

`python -m tests.lakeui.local_stack.upgrades 0.2` writes down the migrations that are here as those of
a release.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.services import ROOT

RELEASES = Path(__file__).with_name("released.json")
PROGRAM = "tests.lakeui.local_stack.upgrade_program"
APPS = ("api", "catalog", "conflicts", "jobs", "local_stack", "monitoring", "sign_on")


def list_releases() -> dict[str, dict[str, str]]:
    """The last migration of each app, by release."""
    releases: dict[str, dict[str, str]] = json.loads(RELEASES.read_text("utf-8"))
    return releases


def upgrade_database(database_url: str, home: Path, release: str) -> dict[str, Any]:
    """What a database tells that was made as of a release, filled and migrated; in a process of its own."""
    done = subprocess.run(  # noqa: S603 - this project's own program
        [sys.executable, "-m", PROGRAM, release],
        env={
            **os.environ,
            "DATABASE_URL": database_url,
            "DJANGO_SETTINGS_MODULE": "lakeui.settings",
            "SECRET_KEY": "only for this test, and long enough to be taken for one",
            "LAKEUI_HOME": str(home),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def latest() -> dict[str, str]:
    """The last migration of each app as its folder has it; their names sort."""
    folders = {app: ROOT / "lakeui" / app / "migrations" for app in APPS}
    return {app: max(file.stem for file in folders[app].glob("0*.py")) for app in APPS}


if __name__ == "__main__":
    RELEASES.write_text(
        json.dumps(list_releases() | {sys.argv[1]: latest()}, indent=2) + "\n", encoding="utf-8"
    )
