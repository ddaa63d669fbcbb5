from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0010_cancelling")]

    operations = [
        migrations.AddField("job", "time_limit_s", models.PositiveIntegerField(null=True, blank=True)),
        migrations.AddField("schedule", "time_limit_s", models.PositiveIntegerField(default=0)),
    ]
