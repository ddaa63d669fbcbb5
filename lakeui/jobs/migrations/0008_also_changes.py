from collections.abc import Iterator
from typing import Any

from django.apps.registry import Apps
from django.db import migrations, models

_BATCH = 1_000


def keep(apps: Apps, _editor: object) -> None:
    """Which tables the scripts that are there already name in their steps."""
    tables = apps.get_model("catalog", "Table").objects.values_list("pk", "name", "uri")
    by_name = {text: pk for pk, name, uri in tables for text in (uri, name)}
    for name in ("job", "schedule"):
        model = apps.get_model("jobs", name)
        through = model.also_changes.through
        rows: list[Any] = []
        scripts = model.objects.filter(kind="script").values_list("pk", "table_id", "parameters")
        for pk, own, parameters in scripts.iterator(chunk_size=_BATCH):
            changed = {by_name[text] for text in _named(parameters) if text in by_name} - {own}
            rows += [through(**{f"{name}_id": pk, "table_id": table}) for table in sorted(changed)]
        through.objects.bulk_create(rows, batch_size=_BATCH)


def _named(parameters: Any) -> Iterator[str]:
    steps = parameters.get("steps") if isinstance(parameters, dict) else None
    for step in steps if isinstance(steps, list) else ():
        given = step.get("parameters") if isinstance(step, dict) else None
        text = given.get("table") if isinstance(given, dict) else None
        if isinstance(text, str):
            yield text


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0011_table_sums'),
        ('jobs', '0007_job_caused_by'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='also_changes',
            field=models.ManyToManyField(blank=True, related_name='+', to='catalog.table'),
        ),
        migrations.AddField(
            model_name='schedule',
            name='also_changes',
            field=models.ManyToManyField(blank=True, related_name='+', to='catalog.table'),
        ),
        migrations.RunPython(keep, migrations.RunPython.noop),
    ]
