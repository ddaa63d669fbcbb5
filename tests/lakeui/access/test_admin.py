"""Django's admin: it has every model; history and mirror are read-only."""

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.urls import reverse

from lakeui.api.models import ApiToken, IdempotentAnswer
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import Role
from tests.lakeui.filled_rows import fill_models
from tests.lakeui.people import NOON, make_conflict, make_job, make_table, person

OURS = [model for model in apps.get_models() if model.__module__.startswith("lakeui.")]
WRITABLE = {
    "LinkedIdentity": {"add", "change", "delete"},
    "TableGrant": {"add", "change", "delete"},
    "Table": {"change"},
    "ApiToken": {"delete"},  # revoked
    "LoginLink": {"delete"},
    "DemoStep": {"delete"},
}


@pytest.fixture
def root(client, db):
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def world(db):
    """Create a row of every model, for a table and a person whose names contain markup."""
    table, user = make_table("<i>t</i>"), person("<b>ann</b>")
    make_conflict(table, make_job(table, user))
    TableGrant.objects.create(table=table, user=user, role=Role.VIEWER)
    ApiToken.objects.create(user=user, name="<u>ci</u>", role=Role.VIEWER)
    IdempotentAnswer.objects.create(user=user, key="k", digest="d", created_at=NOON)
    fill_models([model for model in OURS if not model._default_manager.exists()], 1)


def address(model, page, *arguments):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)


def test_every_model_is_listed_filtered_and_searched(root, world):
    for model in OURS:
        page = admin.site.get_model_admin(model)
        assert page.list_display != ("__str__",), model
        assert page.search_fields, model
        response = root.get(address(model, "changelist"), {"q": "t"})
        assert response.status_code == 200, model
        assert "<i>t</i>" not in response.text, model


def test_every_row_can_be_opened(root, world):
    for model in OURS:
        row = model._default_manager.first()
        response = root.get(address(model, "change", row.pk))
        assert response.status_code == 200, model
        assert "<i>t</i>" not in response.text, model


def test_only_rows_outside_mirror_and_history_can_be_changed(root, rf):
    request = rf.get("/")
    request.user = User.objects.get(username="root")
    for model in OURS:
        page = admin.site.get_model_admin(model)
        allowed = {
            action
            for action in ("add", "change", "delete")
            if getattr(page, f"has_{action}_permission")(request)
        }
        assert allowed == WRITABLE.get(model.__name__, set()), model


def test_of_a_table_only_name_and_description_are_edited(root, world):
    table = Table.objects.get()
    text = root.get(address(Table, "change", table.pk)).text
    fields = set(re.findall(r'name="(\w+)"', text))
    assert {"name", "description"} <= fields
    others = {field.name for field in Table._meta.fields} - {"name", "description"}
    assert not fields & others
    assert "0 top-level columns" in text


def test_a_grant_names_its_giver(root, world):
    other = person("bob")
    body = {"table": Table.objects.get().pk, "user": other.pk, "role": int(Role.OPERATOR)}
    root.post(address(TableGrant, "add"), body)
    assert TableGrant.objects.get(user=other).granted_by.username == "root"


def test_the_admins_pages_hold_nothing_inline(root, world):
    for model in (Table, TableGrant):
        response = root.get(address(model, "changelist"))
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", response.text)
        assert " onclick=" not in response.text
        assert "'unsafe-inline'" not in response.headers["Content-Security-Policy"]


def test_the_admin_is_for_staff(client, db):
    client.force_login(person("ann", "admin"))
    assert client.get(reverse("admin:index")).status_code == 302


def test_the_index_has_the_products_name_and_omits_models_that_nobody_edits(root, world):
    text = root.get(reverse("admin:index")).text
    assert "Django administration" not in text
    assert "<title>Administration · lakeui</title>" in " ".join(text.split())
    for words in (
        "Solar events",
        "Crontabs",
        "Idempotent answers",
        "Commit hours",
        ">local_stack<",
    ):
        assert words.casefold() not in text.casefold()
    for words in (
        "Tables and versions",
        "Jobs and schedules",
        "Table grants",
        "Users",
        "Log entries",
    ):
        assert words in text
    assert root.get("/admin/django_celery_beat/solarschedule/").status_code == 404
