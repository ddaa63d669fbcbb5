"""docs/rest.md, checked against the interface."""

import re
from pathlib import Path

from rest_framework import exceptions

from engine import errors as engine_errors
from lakeui.api import errors as api_errors
from lakeui.api.listing import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from lakeui.api.problems import DATABASE_AWAY, DISK_FULL, problem_of
from lakeui.catalog import reads
from lakeui.catalog.access import MIN_VACUUM_RETENTION_HOURS
from lakeui.jobs import errors as job_errors
from lakeui.settings import API_RATE_ANONYMOUS, API_RATE_PERSON

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "rest.md").read_text("utf-8")


def list_codes():
    """Return every code that an answer can have, with its status."""
    statuses = {}
    for module in (engine_errors, job_errors, reads):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, engine_errors.EngineError):
                bare = kind.__new__(kind)
                bare.what, bare.remedy = "", ""
                bare.conflict = engine_errors.ConflictFacts(
                    table="",
                    read_version=0,
                    attempted_version=1,
                    rule="",
                    subclass="",
                    current=engine_errors.ConflictSide(""),
                    winner=engine_errors.ConflictSide(""),
                )
                statuses[kind.code] = problem_of(bare).status
    for module in (exceptions, api_errors):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, exceptions.APIException):
                statuses[kind.default_code.upper()] = kind.status_code
    around = {fault.code: fault.status for fault in (DATABASE_AWAY, DISK_FULL)}
    return statuses | around | {"INVALID_REQUEST": 422, "INTERNAL_ERROR": 500}


def test_every_code_in_the_table_exists_with_that_status():
    codes = list_codes()
    rows = re.findall(r"^\| ([\d, ]+) \| (.*?) \|", TEXT, re.MULTILINE)
    told = [(code, row[0]) for row in rows for code in re.findall(r"`([A-Z_]{5,})`", row[1])]
    assert len(told) > 20
    for code, statuses in told:
        assert str(codes[code]) in statuses.split(", "), code


def test_the_figures_are_those_in_force():
    assert f"({DEFAULT_PAGE_SIZE}, at most {MAX_PAGE_SIZE})" in TEXT
    assert f"vacuum below {MIN_VACUUM_RETENTION_HOURS} hours" in TEXT
    assert f"`API_RATE_PERSON` ({API_RATE_PERSON})" in TEXT
    assert f"`API_RATE_ANONYMOUS` ({API_RATE_ANONYMOUS})" in TEXT


def test_every_address_it_names_is_served(client, db):
    for path in set(re.findall(r"/api/v1/[a-z/]+/", TEXT)):
        assert client.get(path).status_code in (200, 401, 405), path


def test_every_field_it_names_exists():
    root = Path(__file__).resolve().parents[3]
    modules = (path for house in ("engine", "lakeui") for path in (root / house).rglob("*.py"))
    source = "\n".join(path.read_text("utf-8") for path in modules)
    known = set(re.findall(r'"(\w+)"|^    (\w+)(?: =|:)', source, re.MULTILINE))
    fields = {quoted or assigned for quoted, assigned in known}
    named = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", TEXT))
    assert len(named) > 20
    assert named <= fields
