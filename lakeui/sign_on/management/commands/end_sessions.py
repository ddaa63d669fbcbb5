"""`manage.py end_sessions USERNAME`: sign a person out of every browser."""

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from lakeui.sign_on.sessions import end_all


class Command(BaseCommand):
    help = (
        "Sign a person out of every browser. Their tokens stay valid. See manage.py token --revoke."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: object, **options: object) -> None:
        del args
        user = User.objects.filter(username=str(options["username"])).first()
        if user is None:
            msg = f"There is no user {options['username']}."
            raise CommandError(msg)
        self.stdout.write(f"{end_all(user)} ended.")
