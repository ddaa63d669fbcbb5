"""What pages would else have to look for among the commits: kept beside the table and the hour."""

from datetime import UTC

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import Max, OuterRef, Subquery, Sum
from django.db.models.functions import TruncHour

_MAINTENANCE = {"last_optimize_at": "OPTIMIZE", "last_vacuum_at": "VACUUM END"}


def fill_tables(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Of the commits that were mirrored before."""
    commits, tables = (
        apps.get_model("catalog", "Commit").objects,
        apps.get_model("catalog", "Table"),
    )
    newest = commits.filter(table=OuterRef("pk"), version=OuterRef("version"))
    for field in ("engine_info", "user_name"):  # the name counts where there is one
        found = newest.exclude(**{field: ""}).values(field)[:1]
        known = tables.objects.annotate(found=Subquery(found)).filter(found__isnull=False)
        for pk, name in known.values_list("pk", "found"):
            tables.objects.filter(pk=pk).update(last_writer=name)
    for field, operation in _MAINTENANCE.items():
        done = commits.filter(operation=operation, committed_at__isnull=False).order_by()
        for pk, at in done.values_list("table").annotate(at=Max("committed_at")):
            tables.objects.filter(pk=pk).update(**{field: at})


def fill_hours(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Of the hours that were counted before."""
    commits = apps.get_model("catalog", "Commit").objects.filter(committed_at__isnull=False)
    hours = apps.get_model("catalog", "CommitHour").objects
    found = commits.order_by().annotate(at=TruncHour("committed_at", tzinfo=UTC)).values_list("at")
    for at, plus, minus in found.annotate(plus=Sum("bytes_added"), minus=Sum("bytes_removed")):
        hours.filter(hour=at).update(bytes_added=plus, bytes_removed=minus)


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0008_hours_and_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="table",
            name="last_writer",
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name="table",
            name="last_optimize_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="table",
            name="last_vacuum_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="table",
            name="mirror_tried_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="table",
            name="mirror_tries",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="commithour",
            name="bytes_added",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="commithour",
            name="bytes_removed",
            field=models.BigIntegerField(default=0),
        ),
        migrations.RunPython(fill_tables, migrations.RunPython.noop),
        migrations.RunPython(fill_hours, migrations.RunPython.noop),
    ]
