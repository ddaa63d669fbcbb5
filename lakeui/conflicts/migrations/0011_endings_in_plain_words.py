from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_WORDS = {"escaped": "aborted", "absorbed": "resolved"}
_CHOICES = [("aborted", "Aborted"), ("resolved", "Resolved"), ("reported", "Reported")]


def _rename(apps: StateApps, words: dict[str, str]) -> None:
    for name in ("Conflict", "ConflictDay"):
        rows = apps.get_model("conflicts", name).objects
        for former, now in words.items():
            rows.filter(kind=former).update(kind=now)


def forwards(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rename(apps, _WORDS)


def backwards(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rename(apps, {now: former for former, now in _WORDS.items()})


class Migration(migrations.Migration):
    dependencies = [("conflicts", "0010_pipelines")]

    operations = [
        migrations.AlterField(
            model_name="conflict",
            name="kind",
            field=models.CharField(choices=_CHOICES, max_length=10),
        ),
        migrations.AlterField(
            model_name="conflictday",
            name="kind",
            field=models.CharField(choices=_CHOICES, max_length=10),
        ),
        migrations.RunPython(forwards, backwards),
    ]
