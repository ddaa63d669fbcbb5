"""The words and conditions of a table's health that its own row decides."""

from django.conf import settings
from django.db.models import F, Q, TextChoices
from django.db.models.functions import Now


class Health(TextChoices):
    """The worst condition of a table."""

    UNREACHABLE = "unreachable", "cannot be read"
    PENDING = "pending", "its log has not been read"
    STREAM_STOPPED = "stream_stopped", "a stream into it has stopped"
    SMALL_FILES = "small_files", "most of its files are small"
    VACUUM_DUE = "vacuum_due", "VACUUM can delete much of its data"
    HEALTHY = "healthy", "nothing to do"


def has_many_small_files(few: int) -> Q:
    """Return the condition of a table most of whose files are small, and at least `few`."""
    return Q(small_file_count__gte=few, small_file_count__gt=F("file_count") / 2)


def is_vacuum_due() -> Q:
    """Return the condition for tables of which VACUUM can delete a large part now."""
    return _is_much("vacuum_bytes")


def may_vacuum_be_due() -> Q:
    """Return the condition of a table that the store should be asked about, by its log alone."""
    return _is_much("dead_bytes") & Q(vacuum_from__lte=Now())


def _is_much(column: str) -> Q:
    return Q(
        **{
            f"{column}__gte": max(settings.ATTENTION_VACUUM_BYTES, 1),
            f"{column}__gt": F("size_bytes") * settings.ATTENTION_VACUUM_SHARE,
        }
    )
