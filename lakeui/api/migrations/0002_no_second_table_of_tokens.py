"""The library's own table of tokens goes: it is never used, and its reference keeps `flush` from working."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0001_tokens_and_answers"),
        ("knox", "0009_extend_authtoken_field"),
    ]

    operations = [
        migrations.RunSQL("DROP TABLE IF EXISTS knox_authtoken", migrations.RunSQL.noop),
    ]
