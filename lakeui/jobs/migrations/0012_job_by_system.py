from django.apps.registry import Apps
from django.db import migrations, models


def mark(apps: Apps, _editor: object) -> None:
    """Of the jobs without a person those are the system's that another job caused."""
    jobs = apps.get_model("jobs", "Job").objects.filter(requested_by=None)
    jobs.exclude(caused_by=None).update(by_system=True)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0011_time_limits")]

    operations = [
        migrations.AddField("job", "by_system", models.BooleanField(default=False)),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
