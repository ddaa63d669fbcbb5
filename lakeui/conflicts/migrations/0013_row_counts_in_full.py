from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_KEPT_OF_A_FILE = 100


def mark_samples(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Until now a conflict counted the first 100 rows of each file, and those of 100 files."""
    conflicts = apps.get_model("conflicts", "Conflict").objects
    cut = conflicts.filter(kind="aborted", row_count__gte=_KEPT_OF_A_FILE)
    cut.update(row_count_is_minimum=True)


class Migration(migrations.Migration):
    dependencies = [("conflicts", "0012_pipeline_runs")]

    operations = [
        migrations.AddField(
            model_name="conflict",
            name="row_count_is_minimum",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(mark_samples, migrations.RunPython.noop),
    ]
