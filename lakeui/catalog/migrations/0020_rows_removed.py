from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import Count, Exists, F, OuterRef, Q, Sum

_ONCE = 2000


def count_rows_of_files_that_left(
    apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor | None
) -> None:
    """Of commits whose removed files are all mirrored with their counts; a rebuild counts the others."""
    commits = apps.get_model("catalog", "Commit").objects
    files = apps.get_model("catalog", "CommitFile").objects
    commits.filter(files_removed__lte=F("files_restated")).update(rows_removed=0)
    stays = files.filter(commit=OuterRef("commit"), path=OuterRef("path"), action="add")
    left = files.filter(
        ~Exists(stays), action="remove", commit__files_removed__gt=F("commit__files_restated")
    )
    sums = (
        left.order_by()
        .values_list("commit", "commit__files_removed", "commit__files_restated")
        .annotate(
            n=Count("pk"),
            unknown=Count("pk", filter=Q(row_count=None)),
            rows=Sum("row_count", default=0),
            marked=Sum("deleted_row_count", default=0),
        )
    )
    for pk, removed, restated, count, unknown, rows, marked in sums.iterator(_ONCE):
        if not unknown and count == removed - restated and rows >= marked:
            commits.filter(pk=pk).update(rows_removed=rows - marked)


class Migration(migrations.Migration):
    dependencies = [("catalog", "0019_repeated_discoveries")]

    operations = [
        migrations.AddField(
            model_name="commit",
            name="rows_removed",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.RunPython(count_rows_of_files_that_left, migrations.RunPython.noop),
    ]
