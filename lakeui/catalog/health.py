"""How a table is doing, in one word, as the database sees it."""

from typing import Any

from django.db.models import Case, CharField, F, Q, QuerySet, TextChoices, Value, When
from django.db.models.functions import Now

from lakeui.catalog.models import FEW_FILES, Table


class Health(TextChoices):
    """The worst thing that is true of a table."""

    UNREACHABLE = "unreachable", "the mirror cannot read its log"
    PENDING = "pending", "its log was not read yet"
    SMALL_FILES = "small_files", "most of its files are small"
    VACUUM_DUE = "vacuum_due", "VACUUM may delete a good part of what it takes up"
    HEALTHY = "healthy", "nothing to do"


MANY_SMALL = Q(small_file_count__gte=FEW_FILES, small_file_count__gt=F("file_count") / 2)
VACUUM_DUE = Q(vacuum_from__lte=Now(), dead_bytes__gt=F("size_bytes") / 2)

HEALTH = Case(
    When(~Q(mirror_error_code=""), then=Value(Health.UNREACHABLE)),
    When(version__isnull=True, then=Value(Health.PENDING)),
    When(MANY_SMALL, then=Value(Health.SMALL_FILES)),
    When(VACUUM_DUE, then=Value(Health.VACUUM_DUE)),
    default=Value(Health.HEALTHY),
    output_field=CharField(),
)


def annotate_health(tables: QuerySet[Table]) -> QuerySet[Any]:
    """Each table with its `health`, a value of `Health`."""
    return tables.annotate(health=HEALTH)
