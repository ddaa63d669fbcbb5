"""The wheel is the product: it runs in an empty directory, without the checkout.

It is built from the files alone that the Dockerfile copies.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes

import pytest
from packaging.requirements import Requirement

from tests.migrated import copy_for_process
from tests.services import ROOT

EXTRAS = ("", "bench", "client", "lineage", "server", "spark", "test", "tracing")
IGNORED = shutil.ignore_patterns("__pycache__")
PROGRAM = """
import django
django.setup()
from django.core.management import call_command
from django.test import Client
import lakeui
call_command("collectstatic", interactive=False, verbosity=0)
client = Client(headers={"host": "localhost"})
places = ("/livez", "/readyz", "/login/", "/api/v1/schema/", "/static/tokens.css")
print(lakeui.__file__, *(client.get(place).status_code for place in places))
"""


def names_needed(metadata, extra):
    """Return the packages that an extra of the wheel brings."""
    texts = message_from_bytes(metadata).get_all("Requires-Dist")
    needed = (Requirement(text) for text in texts)
    return {one.name for one in needed if not one.marker or one.marker.evaluate({"extra": extra})}


def migrations_below(place):
    return {path.relative_to(place) for path in (place / "lakeui").rglob("migrations/*.py")}


@pytest.mark.timeout(180)
def test_the_wheel_runs_its_commands_and_pages_away_from_the_checkout(tmp_path, django_db_setup):
    def run(*command, **environment):
        done = subprocess.run(  # noqa: S603 - this interpreter, programs of ours
            [sys.executable, *command],
            cwd=environment.pop("cwd", tmp_path),
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    source = tmp_path / "source"
    source.mkdir()
    _, build, _ = (ROOT / "Dockerfile").read_text("utf-8").split("\nFROM ")
    for line in re.findall(r"^COPY (.*)$", build, re.MULTILINE):
        *names, target = line.split()
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / target, ignore=IGNORED)
            else:
                shutil.copy(ROOT / name, source / target)
    run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"), cwd=source)
    (wheel,) = (tmp_path / "dist").glob("lakeui-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
        entries = files.read(next(n for n in files.namelist() if n.endswith("entry_points.txt")))
        metadata = files.read(next(n for n in files.namelist() if n.endswith("/METADATA")))
    assert b"lakeui = lakeui.__main__:main" in entries
    assert {"msgspec", "httpx"} <= names_needed(metadata, "client")
    with_spark = {extra for extra in EXTRAS if "pyspark" in names_needed(metadata, extra)}
    assert with_spark == {"server", "spark", "test"}
    given = {
        "PYTHONPATH": str(site),
        "HOME": str(tmp_path),
        "SECRET_KEY": "only for this test, and long enough to be taken for one",
        "DATABASE_URL": copy_for_process(tmp_path / "lakeui.sqlite3"),
        "BROKER_URL": "memory://",
        "ALLOWED_HOSTS": "localhost",
        "DJANGO_SETTINGS_MODULE": "lakeui.settings",
    }
    run("-m", "lakeui", "migrate", "--check", **given)
    assert migrations_below(site) == migrations_below(ROOT)
    answers = run("-c", PROGRAM, **given).split()[-6:]
    assert (tmp_path / ".lakeui" / "static" / "tokens.css").is_file()
    assert answers == [str(site / "lakeui" / "__init__.py"), *["200"] * 5]
