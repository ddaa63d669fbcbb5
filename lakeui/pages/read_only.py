"""Nothing changes while the installation is read-only."""

from django.conf import settings
from django.core.exceptions import PermissionDenied


def refuse_when_read_only() -> None:
    """Raise PermissionDenied while READ_ONLY is set."""
    if settings.READ_ONLY:
        msg = "This installation is read-only: nothing was changed."
        raise PermissionDenied(msg)
