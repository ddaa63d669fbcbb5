"""`manage.py up`: everything on this machine, embedded, with a demo lake."""

import os
from typing import cast

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from lakeui.local_stack.child import end_orphans
from lakeui.local_stack.home import command_name, remember_roots, remember_url
from lakeui.local_stack.login_links import make_link_token
from lakeui.local_stack.preflight import HOST, problems
from lakeui.local_stack.stack import AlreadyRunningError, Stack, only_one, programs

ADMIN = "admin"
_LOGS = settings.LAKEUI_HOME / "logs"


class Command(BaseCommand):
    help = "Run everything on this machine: broker, web, workers, and a demo lake."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port of the web server (8000)")
        parser.add_argument("--no-demo", action="store_true", help="create no demo tables")
        parser.add_argument(
            "--no-spark",
            action="store_true",
            help="run without Spark: needs no Java, and runs no jobs on rows",
        )

    def handle(self, *args: object, **options: object) -> None:
        del args
        try:
            with only_one():
                spark = not options["no_spark"]
                demo = spark and not options["no_demo"]
                self._run(cast("int", options["port"]), spark=spark, demo=demo)
        except AlreadyRunningError:
            msg = f"The stack of {settings.LAKEUI_HOME} is already running. Stop it first (Ctrl-C)."
            raise CommandError(msg) from None

    def _run(self, port: int, *, spark: bool, demo: bool) -> None:
        if left := end_orphans(settings.LAKEUI_HOME):
            msg = f"Processes of an earlier start do not end: {left}. End them."
            raise CommandError(msg)
        if faults := list(problems(port, spark=spark)):
            raise CommandError("\n".join(faults))
        remember_roots(settings.LAKEUI_HOME, os.environ)
        remember_url(settings.LAKEUI_HOME, f"http://{HOST}:{port}")
        stack = Stack(report=self._say)
        self._say("Starting …")
        call_command("migrate", verbosity=0, interactive=False)
        if demo:
            os.environ.setdefault("INSTALLATION_NAME", "demo lake")
        link = reverse("login-link", args=[make_link_token(_admin())])
        try:
            stack.start(programs(port, spark=spark, demo=demo))
            is_there = stack.wait_for_web(port)
            if not stack.is_stopping:
                if not is_there:
                    self._say(f"The web server has not answered yet. See {_LOGS / 'web.log'}.")
                self._welcome(f"http://{HOST}:{port}", link, demo=demo)
            stack.run()
        finally:
            self._say("Stopping …")
            left = stack.stop()
        self._say(f"These processes did not end: {left}" if left else "Everything has stopped.")

    def _welcome(self, url: str, link: str, *, demo: bool) -> None:
        self._say(f"lakeui answers at {url}/")
        self._say(f"Sign in with this link (once, within an hour): {url}{link}")
        self._say(f"Another link: {command_name()} login_link")
        if own := [root for root in settings.TABLE_ROOTS if root != str(settings.LAKE_HOME)]:
            self._say(f"Your tables can be under: {', '.join(own)}")
        self._say(f"Logs: {_LOGS}")
        if demo:
            self._say("Spark jobs are filling the demo lake. The overview shows the progress.")
        self._say("Press Ctrl-C to stop everything.")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _admin() -> User:
    """Return the person who signs in by the link: an administrator without a password."""
    admin = User.objects.filter(username=ADMIN).first()
    return admin or User.objects.create_superuser(ADMIN)
