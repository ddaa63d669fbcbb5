"""`manage.py token USERNAME`: a token for a program, without a browser."""

from datetime import timedelta

from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from lakeui.api.access import MAX_DAYS
from lakeui.api.models import ApiToken
from lakeui.catalog.access import highest_role
from lakeui.catalog.roles import Role


class Command(BaseCommand):
    help = "Create a token for the REST API and print it once, or list and revoke a user's tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        labels = [role.label for role in Role]
        parser.add_argument(
            "username", help="the user of the token, preferably a separate service account"
        )
        parser.add_argument(
            "--name", default="command line", help="the program that will use the token"
        )
        parser.add_argument("--role", choices=labels, default=Role.VIEWER.label)
        parser.add_argument(
            "--days", type=int, default=30, help=f"days until the token expires, up to {MAX_DAYS}"
        )
        parser.add_argument(
            "--create-account",
            action="store_true",
            help="create the account if it does not exist, in the role's group and unable to "
            "sign in",
        )
        parser.add_argument(
            "--list", action="store_true", help="list the user's tokens instead of creating one"
        )
        parser.add_argument(
            "--revoke",
            metavar="ID",
            help="revoke the token with this id, or all, instead of creating one",
        )

    def handle(self, *args: object, **options: object) -> None:
        del args
        role = Role.from_label(str(options["role"]))
        days = int(str(options["days"]))
        if role is None or not 1 <= days <= MAX_DAYS:
            msg = f"--days must be a number from 1 to {MAX_DAYS}."
            raise CommandError(msg)
        with transaction.atomic():
            username = str(options["username"])
            if options["list"]:
                self._list(_user(username))
            elif options["revoke"]:
                self._revoke(_user(username), str(options["revoke"]))
            else:
                user = _account(username, role if options["create_account"] else None)
                self._make(user, role, days, str(options["name"]))

    def _make(self, user: User, role: Role, days: int, name: str) -> None:
        own = highest_role(user)
        if own is None or role > own:
            msg = (
                f"{user.username} is {own.label if own else 'in no group'}, so the token "
                f"cannot have the role {role.label}."
            )
            raise CommandError(msg)
        _, secret = ApiToken.objects.create(
            user=user, expiry=timedelta(days=days), name=name[:100], role=role
        )
        self.stdout.write(secret)
        until = timezone.now() + timedelta(days=days)
        self.stderr.write(
            f"{role.label} of {user.username} until {until:%Y-%m-%d}. It is not shown again."
        )

    def _list(self, user: User) -> None:
        for token in ApiToken.objects.filter(user=user):
            expiry = f"{token.expiry:%Y-%m-%d}"
            line = f"{token.public_id}  {token.get_role_display():10} until {expiry}  {token.name}"
            self.stdout.write(line)

    def _revoke(self, user: User, which: str) -> None:
        tokens = ApiToken.objects.filter(user=user)
        chosen = [token for token in tokens if which in ("all", str(token.public_id))]
        if not chosen and which != "all":
            msg = f"{user.username} has no token {which}: see --list."
            raise CommandError(msg)
        for token in chosen:
            token.delete()
        self.stdout.write(f"{len(chosen)} revoked.")


def _user(username: str) -> User:
    """Return the user of the name, active or not: tokens of former users can be revoked."""
    user = User.objects.filter(username=username).first()
    if user is None:
        msg = f"There is no user {username}."
        raise CommandError(msg)
    return user


def _account(username: str, role: Role | None) -> User:
    """Return the active user of the name; create one in a role's group if a role is given."""
    user = User.objects.filter(username=username).first()
    if user is None and role is not None:
        user = User.objects.create_user(username)  # without a password: nobody can sign in with it
        user.groups.add(Group.objects.get_or_create(name=role.label)[0])
    if user is not None and not user.is_active:
        msg = f"The account {username} is not active. An administrator can activate it."
        raise CommandError(msg)
    if user is None:
        msg = (
            f"There is no active user {username}. Use --create-account to create a service account."
        )
        raise CommandError(msg)
    return user
