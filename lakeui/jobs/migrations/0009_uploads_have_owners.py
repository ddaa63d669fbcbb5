import json
import re
import uuid
from datetime import timedelta
from typing import Any

import django.db.models.deletion
import django.utils.timezone
from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

_FILE = re.compile(r"/([0-9a-f]{32})/([A-Za-z0-9._-]{1,120})\"")
_BATCH = 1_000


def keep(apps: Apps, _editor: object) -> None:
    """Whoever named a sent file first is its owner. One that nobody named yet is to be sent again."""
    model = apps.get_model("jobs", "Upload")
    uploads: dict[uuid.UUID, Any] = {}
    jobs = apps.get_model("jobs", "Job").objects.filter(requested_by__isnull=False)
    since = django.utils.timezone.now() - timedelta(days=settings.UPLOAD_KEEP_DAYS)
    kept = jobs.filter(Q(finished_at__isnull=True) | Q(finished_at__gte=since))
    schedules = apps.get_model("jobs", "Schedule").objects
    for rows in (
        kept.order_by("created_at").values_list("requested_by_id", "created_at", "parameters"),
        schedules.order_by("created_at").values_list("owner_id", "created_at", "parameters"),
    ):
        for owner, sent_at, parameters in rows.iterator(chunk_size=_BATCH):
            for place, name in _FILE.findall(json.dumps(parameters)):
                upload = model(pk=uuid.UUID(place), owner_id=owner, name=name, sent_at=sent_at)
                uploads.setdefault(upload.pk, upload)
    model.objects.bulk_create(uploads.values(), batch_size=_BATCH)


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0008_also_changes'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Upload',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=120)),
                ('sent_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='uploads', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-sent_at'],
            },
        ),
        migrations.RunPython(keep, migrations.RunPython.noop),
    ]
