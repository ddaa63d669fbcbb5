"""Checks of the lineage settings, by `manage.py check` and at each start of a process."""

from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from lakeui.monitoring.lineage.outbox import place_problem


def check_lineage(**_: Any) -> list[CheckMessage]:  # noqa: ANN401 - Django's
    """Check that events can be made and sent; nothing if lineage is off."""
    if not settings.LINEAGE_URL:
        return []
    if find_spec("openlineage") is None:
        what = "OPENLINEAGE_URL is set, and the package for lineage is missing."
        return [Error(what, hint="Install lakeui[server,lineage].", id="lakeui.E001")]
    if problem := place_problem(settings.LINEAGE_URL):
        hint = "Use http://host:port, https://host or file:///path."
        return [Error(f"OPENLINEAGE_URL cannot be used: {problem}", hint=hint, id="lakeui.E002")]
    return []
