from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def forwards(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("monitoring", "Mute").objects.filter(about="escaped").update(about="aborted")


def backwards(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("monitoring", "Mute").objects.filter(about="aborted").update(about="escaped")


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0002_audited_tables")]

    operations = [migrations.RunPython(forwards, backwards)]
