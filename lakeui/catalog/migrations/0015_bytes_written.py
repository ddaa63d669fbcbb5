from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import Count, Exists, F, OuterRef, Sum
from django.db.models.functions import Greatest

_REFERRING = ("RESTORE", "CONVERT")
_RESTATING = ("ROW TRACKING BACKFILL", "COMPUTE STATS")
_ONCE = 2000


def tell_written_from_restated(
    apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor | None
) -> None:
    """From the mirrored files, as far as a commit's are mirrored: a rebuild counts all of them."""
    commits = apps.get_model("catalog", "Commit").objects
    files = apps.get_model("catalog", "CommitFile").objects
    restating = commits.filter(operation__in=_RESTATING)
    restating.update(bytes_added=0, files_restated=F("files_added"))
    removed = files.filter(commit=OuterRef("commit"), path=OuterRef("path"), action="remove")
    both = files.filter(Exists(removed), action="add", commit__files_removed__gt=0).order_by()
    sums = both.values_list("commit").annotate(n=Count("pk"), size=Sum("size_bytes", default=0))
    for pk, count, size in sums.iterator(_ONCE):
        commits.filter(pk=pk).update(
            files_restated=count,
            bytes_added=F("bytes_added") - size,
            bytes_removed=Greatest(F("bytes_removed") - size, 0),  # a remove may have no size
        )
    commits.exclude(operation__in=_REFERRING).update(bytes_written=F("bytes_added"))
    clones = commits.filter(operation="CLONE").values_list("pk", "operation_parameters")
    shallow = [pk for pk, said in clones if str((said or {}).get("isShallow")).lower() == "true"]
    commits.filter(pk__in=shallow).update(bytes_written=0)


class Migration(migrations.Migration):
    dependencies = [("catalog", "0014_pipelines")]

    operations = [
        *(
            migrations.AddField(
                model_name="commit", name=name, field=models.BigIntegerField(default=0)
            )
            for name in ("files_restated", "bytes_written")
        ),
        migrations.RunPython(tell_written_from_restated, migrations.RunPython.noop),
    ]
