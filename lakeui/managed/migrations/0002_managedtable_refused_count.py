from typing import Any

from django.db import migrations, models
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce


def count_attempts(apps: Any, _schema_editor: Any) -> None:
    attempts = apps.get_model("managed", "CommitAttempt").objects.filter(table=OuterRef("pk"))
    counted = attempts.order_by().values("table").annotate(n=Count("pk")).values("n")
    tables = apps.get_model("managed", "ManagedTable").objects
    tables.update(refused_count=Coalesce(Subquery(counted), 0))


class Migration(migrations.Migration):

    dependencies = [
        ('managed', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='managedtable',
            name='refused_count',
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.RunPython(count_attempts, migrations.RunPython.noop),
    ]
