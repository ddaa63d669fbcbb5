import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models

_THINGS = ("tablegrant", "tablekey", "schedule", "mute")
_BATCH = 1_000


def keep(apps: Apps, _editor: object) -> None:
    """Of the entries that are there already."""
    kept = apps.get_model("monitoring", "AuditedTable").objects
    entries = apps.get_model("auditlog", "LogEntry").objects.filter(content_type__model__in=_THINGS)
    rows = []
    for pk, changes in entries.values_list("pk", "changes").iterator(chunk_size=_BATCH):
        sides = changes.get("table") if isinstance(changes, dict) else None
        named = {text for text in sides or () if isinstance(text, str) and text.isdecimal() and len(text) < 19}
        rows += [kept.model(entry_id=pk, table_pk=int(text)) for text in sorted(named)]
    kept.bulk_create(rows, batch_size=_BATCH)


class Migration(migrations.Migration):
    dependencies = [
        ("monitoring", "0001_muted_checks"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("auditlog", "0017_add_actor_email"),
        
    ]

    operations = [
        migrations.CreateModel(
            name="AuditedTable",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("table_pk", models.BigIntegerField()),
                (
                    "entry",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="audited_tables",
                        to="auditlog.logentry",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("table_pk", "entry"), name="one_entry_a_table_and_name"
                    )
                ],
            },
        ),
        migrations.RunPython(keep, migrations.RunPython.noop),
    ]
