from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_uploads_have_owners")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="state",
            field=models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("running", "Running"),
                    ("committing", "Committing"),
                    ("cancelling", "Cancelling"),
                    ("succeeded", "Succeeded"),
                    ("failed", "Failed"),
                    ("conflicted", "Conflicted"),
                    ("cancelled", "Cancelled"),
                ],
                default="queued",
                max_length=12,
            ),
        ),
    ]
