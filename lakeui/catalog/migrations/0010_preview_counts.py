from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0009_last_writer_tries_and_growth'),
    ]

    operations = [
        migrations.AddField(
            model_name='preview',
            name='row_count',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='preview',
            name='file_count',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='preview',
            name='marked_rows',
            field=models.BigIntegerField(blank=True, null=True),
        ),
    ]
