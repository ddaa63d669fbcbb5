"""`manage.py demo`: fill the demo lake by jobs, or go on filling it, or remove it; `manage.py up` runs it."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from engine.clock import SystemClock
from engine.errors import EngineError
from lakeui.local_stack.demo import advance, is_removed, prepare
from lakeui.local_stack.demo_removal import demo_of_installation, remove_demo
from lakeui.local_stack.models import DemoStep

_LOOK_AGAIN_S = 0.5


class Command(BaseCommand):
    help = "Fill the demo lake with jobs for the running workers, or remove it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--remove", action="store_true", help="list what is removed with the demo"
        )
        parser.add_argument("--yes", action="store_true", help="with --remove: remove it")

    def handle(self, *args: object, **options: object) -> None:
        del args
        if options["remove"]:
            self._remove(confirmed=bool(options["yes"]))
            return
        if is_removed():
            self.stdout.write("The demo lake was removed.")
            return
        prepare()
        clock = SystemClock()
        while advance():
            clock.pause(_LOOK_AGAIN_S)
        for step in DemoStep.objects.filter(state=DemoStep.State.FAILED):
            self.stdout.write(f"{step.title}: {step.message}")
        self.stdout.write("The demo lake is complete.")

    def _remove(self, *, confirmed: bool) -> None:
        demo = demo_of_installation()
        for table in demo.tables:
            self.stdout.write(f"table {table.name} with its files at {table.uri}")
        for account in demo.accounts:
            self.stdout.write(f"account {account.username}")
        self.stdout.write(
            f"{len(demo.files)} files that were loaded, {demo.job_count} jobs and "
            f"{demo.schedule_count} schedules of these tables"
        )
        if not confirmed:
            self.stdout.write("Nothing was removed. Add --yes to remove the demo.")
            return
        try:
            remove_demo(None)
        except EngineError as error:
            raise CommandError(str(error)) from error
        self.stdout.write("The demo lake is removed.")
