"""The command `lakeui`, which `manage.py` runs in a checkout."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import Error

from lakeui.local_stack.database_state import explain_database_error
from lakeui.local_stack.home import prepare_home

EMBEDDED_COMMANDS = {
    "connectors",
    "up",
    "doctor",
    "explain",
}  # they work in a fresh checkout, without a SECRET_KEY


def main(arguments: list[str] | None = None) -> None:
    """Run a command of Django or of this product; without arguments, those of the process."""
    arguments = sys.argv if arguments is None else arguments
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")
    if EMBEDDED_COMMANDS & set(arguments[1:2]):
        try:
            prepare_home()
        except OSError as error:
            sys.exit(
                f"{error.filename} cannot be written ({error.strerror}). Make it writable, or "
                "set LAKEUI_HOME to a writable directory."
            )
    try:
        execute_from_command_line(arguments)
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    except (ImproperlyConfigured, Error) as error:
        reason = "" if "--traceback" in arguments else _reason(error, arguments[1])
        if not reason:
            raise
        sys.exit(f"CommandError: {reason}")


def _reason(error: Exception, command: str) -> str:
    return explain_database_error(error, command) if isinstance(error, Error) else str(error)


if __name__ == "__main__":
    main()
