import pytest
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from lakeui.jobs.schedules import create_schedule
from tests.lakeui.people import ROLES, everybody, grant, make_conflict, make_job, make_table, person


@pytest.fixture
def people(db):
    for name in ROLES:  # which a test that commits has flushed
        Group.objects.get_or_create(name=name)
    return everybody()


@pytest.fixture
def table(db):
    return make_table()


@pytest.fixture
def job(table, people):
    return make_job(table, people["maintainer"])


@pytest.fixture
def conflict(table, job):
    return make_conflict(table, job)


@pytest.fixture
def schedule(table, people):
    return create_schedule(
        table=table,
        name="weekly",
        cron="0 3 * * 1",
        owner=people["admin"],
        sql=f"OPTIMIZE {table.name}",
    )


@pytest.fixture
def guest(people, table):
    """Return a person with a role on one table and none on the others."""
    user = person("guest")
    grant(user, table, "viewer")
    return user


@pytest.fixture
def client_for(people):
    """Return a function that gives a client signed in as one of the people; "anonymous" is signed out."""

    def client(name):
        caller = APIClient(enforce_csrf_checks=False)
        if name != "anonymous":
            caller.force_login(people[name])
        return caller

    return client
