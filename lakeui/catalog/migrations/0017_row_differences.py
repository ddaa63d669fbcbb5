from typing import Any

from django.db import migrations, models


def forget_previews(apps: Any, schema_editor: Any) -> None:
    """They are kept for an hour, and none has a digest yet."""
    apps.get_model("catalog", "Preview").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("catalog", "0016_preview_conditions")]

    operations = [
        migrations.RunPython(forget_previews, migrations.RunPython.noop, elidable=True),
        migrations.RemoveConstraint(model_name="preview", name="one_preview_a_condition"),
        migrations.AddField(
            model_name="preview",
            name="older_version",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="preview",
            name="wanted",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="preview", name="keys", field=models.JSONField(blank=True, default=list)
        ),
        migrations.AddField(
            model_name="preview",
            name="profiled",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="preview",
            name="digest",
            field=models.CharField(default="", editable=False, max_length=64),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="preview", name="answer", field=models.JSONField(blank=True, default=dict)
        ),
        migrations.AddConstraint(
            model_name="preview",
            constraint=models.UniqueConstraint(
                fields=("table", "digest"), name="one_preview_a_request"
            ),
        ),
    ]
