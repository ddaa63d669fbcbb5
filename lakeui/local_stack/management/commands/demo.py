"""`manage.py demo`: fill the demo lake by jobs, or go on filling it; `manage.py up` runs it."""

from django.core.management.base import BaseCommand

from engine.clock import SystemClock
from lakeui.local_stack.demo import advance, prepare
from lakeui.local_stack.models import DemoStep

_LOOK_AGAIN_S = 0.5


class Command(BaseCommand):
    help = "Fill the demo lake with jobs for the running workers."

    def handle(self, *args: object, **options: object) -> None:
        del args, options
        prepare()
        clock = SystemClock()
        while advance():
            clock.pause(_LOOK_AGAIN_S)
        for step in DemoStep.objects.filter(state=DemoStep.State.FAILED):
            self.stdout.write(f"{step.title}: {step.message}")
        self.stdout.write("The demo lake is as full as it gets.")
