"""`manage.py login_link [USERNAME]`: another link to sign in with."""

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from lakeui.local_stack.home import read_url
from lakeui.local_stack.login_links import make_link_token


class Command(BaseCommand):
    help = "Print a link that signs a user in. It works once, within an hour."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?", default="admin")
        parser.add_argument("--base-url", help="the URL of the web server; its last URL by default")

    def handle(self, *args: object, **options: object) -> None:
        del args
        user = User.objects.filter(username=options["username"], is_active=True).first()
        if user is None:
            msg = f"There is no active user {options['username']}. Create one with createsuperuser."
            raise CommandError(msg)
        path = reverse("login-link", args=[make_link_token(user)])
        base = str(options["base_url"] or read_url(settings.LAKEUI_HOME))
        self.stdout.write(base.rstrip("/") + path)
