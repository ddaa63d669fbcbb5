"""Roles: by group on every table, by grant on one, limited by a token."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.management import call_command

from lakeui.catalog.access import ACTIONS, action_for_kind, may, role_of, visible_tables
from lakeui.catalog.roles import Role
from lakeui.conflicts.filters import visible_conflicts
from lakeui.jobs.filters import visible_jobs
from tests.lakeui.people import ROLES, grant, make_conflict, make_job, make_table, person

pytestmark = pytest.mark.django_db


def test_the_four_groups_are_there_from_the_start():
    assert set(ROLES) <= set(Group.objects.values_list("name", flat=True))


@pytest.mark.django_db(transaction=True)
def test_the_groups_are_there_after_a_test_that_empties_the_database():
    call_command("flush", verbosity=0, interactive=False)
    assert set(Group.objects.values_list("name", flat=True)) == {role.label for role in Role}


@pytest.mark.parametrize("role", ROLES)
def test_a_group_gives_its_role_on_every_table(role):
    assert role_of(person("ann", role), make_table()) == Role.from_label(role)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (None, set()),
        ("viewer", {"view"}),
        ("operator", {"view", "write"}),
        ("maintainer", {"view", "write", "maintain"}),
        ("admin", {"view", "write", "maintain", "admin"}),
    ],
)
def test_each_role_includes_the_rights_of_those_below_it(role, allowed):
    user, table = person("ann", role), make_table()
    assert {action for action in ACTIONS if may(user, action, table)} == allowed


def test_a_grant_counts_on_its_table_alone():
    user, mine, other = person("ann"), make_table("mine"), make_table("other")
    grant(user, mine, "maintainer")
    assert may(user, "maintain", mine)
    assert not may(user, "view", other)
    assert not may(user, "view")
    assert list(visible_tables(user)) == [mine]


def test_a_grant_below_the_group_reduces_nothing():
    user, table = person("ann", "admin"), make_table()
    grant(user, table, "viewer")
    assert role_of(user, table) == Role.ADMIN


def test_a_superuser_is_an_admin_without_a_group():
    assert role_of(User.objects.create_superuser("root")) == Role.ADMIN


@pytest.mark.parametrize("who", ["anonymous", "inactive"])
def test_visitors_and_disabled_accounts_see_nothing(who):
    table = make_table()
    user = AnonymousUser()
    if who == "inactive":
        user = person("ann", "admin")
        user.is_active = False
        grant(user, table, "admin")
    assert role_of(user, table) is None
    assert not visible_tables(user).exists()


def test_a_ceiling_holds_the_role_down_and_never_lifts_it():
    table = make_table()
    strong, weak = person("ann", "admin"), person("bob", "viewer")
    strong.role_ceiling, weak.role_ceiling = Role.VIEWER, Role.ADMIN
    assert role_of(strong, table) == Role.VIEWER
    assert role_of(weak, table) == Role.VIEWER


def test_jobs_and_conflicts_are_seen_where_their_table_is():
    user, mine, other = person("ann"), make_table("mine"), make_table("other")
    grant(user, mine, "viewer")
    seen_job, seen = make_job(mine), make_conflict(mine)
    make_job(other)
    make_conflict(other)
    make_conflict(None)
    assert list(visible_jobs(user)) == [seen_job]
    assert list(visible_conflicts(user)) == [seen]


def test_a_conflict_of_no_known_table_is_shown_to_people_who_see_all_tables():
    stray = make_conflict(None)
    assert list(visible_conflicts(person("ann", "viewer"))) == [stray]


@pytest.mark.parametrize(
    ("kind", "parameters", "action"),
    [
        ("append", {"merge_schema": True}, "maintain"),
        ("overwrite", {"overwrite_schema": True}, "maintain"),
        ("set_properties", {"properties": {"delta.isolationLevel": "Serializable"}}, "maintain"),
        ("set_properties", {"properties": {"delta.logRetentionDuration": "1"}}, "admin"),
        ("unset_properties", {"keys": [" DELTA.deletedFileRetentionDuration "]}, "admin"),
        ("create", {"properties": {"delta.deletedFileRetentionDuration": "1"}}, "admin"),
        ("alter_drop_feature", {"feature": "x"}, "maintain"),
        ("alter_drop_feature", {"feature": "x", "truncate_history": True}, "admin"),
        ("vacuum", {"retention_hours": None}, "maintain"),
        ("vacuum", {"retention_hours": 168}, "maintain"),
        ("vacuum", {"retention_hours": 167.9}, "admin"),
        ("vacuum", {"retention_hours": 0}, "admin"),
        ("vacuum", {"retention_hours": "nan"}, "admin"),
        ("vacuum", {"retention_hours": "no"}, "admin"),
        ("vacuum", {"override_retention": True}, "admin"),
    ],
)
def test_irreversible_commands_need_an_admin(kind, parameters, action):
    assert action_for_kind(kind, parameters) == action


def test_the_groups_of_a_person_are_queried_once(django_assert_num_queries):
    user = User.objects.get(pk=person("ann", "operator").pk)
    with django_assert_num_queries(1):
        assert role_of(user) == Role.OPERATOR
        assert may(user, "write")
        assert visible_tables(user) is not None


def test_a_person_moved_to_another_group_has_its_role_at_once():
    user = person("ann", "operator")
    assert role_of(user) == Role.OPERATOR
    user.groups.set([Group.objects.get(name="viewer")])
    assert role_of(user) == Role.VIEWER
