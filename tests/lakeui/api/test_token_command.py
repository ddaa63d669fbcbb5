"""`manage.py token`: tokens for programs, without a browser."""

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.base import CommandError
from rest_framework.test import APIClient

from lakeui.api.models import ApiToken

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga():
    user = User.objects.create_user("olga")
    user.groups.add(Group.objects.get(name="operator"))
    return user


def _status(secret):
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client.get("/api/v1/tables/").status_code


def test_a_token_is_printed_alone_and_opens_the_api(olga, capsys):
    call_command("token", "olga", "--name", "nightly", "--role", "operator")
    told = capsys.readouterr()
    secret = told.out.strip()
    assert _status(secret) == 200
    assert ApiToken.objects.get().name == "nightly"
    assert "operator of olga" in told.err


def test_a_service_account_is_made_in_the_group_of_the_role(capsys):
    call_command("token", "airflow", "--role", "viewer", "--create-account")
    account = User.objects.get(username="airflow")
    assert [group.name for group in account.groups.all()] == ["viewer"]
    assert not account.has_usable_password()
    assert _status(capsys.readouterr().out.strip()) == 200


def test_tokens_are_listed_and_revoked(olga, capsys):
    call_command("token", "olga")
    secret = capsys.readouterr().out.strip()
    call_command("token", "olga", "--list")
    listed = capsys.readouterr().out
    assert secret not in listed
    call_command("token", "olga", "--revoke", listed.split()[0])
    assert _status(secret) == 401


def test_the_tokens_of_former_users_are_listed_and_revoked(olga, capsys):
    call_command("token", "olga")
    olga.is_active = False
    olga.save()
    call_command("token", "olga", "--list")
    assert str(ApiToken.objects.get().public_id) in capsys.readouterr().out
    call_command("token", "olga", "--revoke", "all")
    assert not ApiToken.objects.exists()
    with pytest.raises(CommandError, match="is not active"):
        call_command("token", "olga", "--create-account")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "There is no active user nobody"),
        (("olga", "--role", "admin"), "olga is operator, so the token cannot have the role admin"),
        (("olga", "--days", "0"), "from 1 to 365"),
        (("olga", "--revoke", "x"), "olga has no token x"),
    ],
)
def test_an_impossible_request_is_refused_and_makes_no_token(olga, arguments, message):
    with pytest.raises(CommandError, match=message):
        call_command("token", *arguments)
    assert not ApiToken.objects.exists()
