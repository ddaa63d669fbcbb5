from typing import Any

from django.db import migrations

NAMES = ["viewer", "operator", "maintainer", "admin"]


def make_groups(apps: Any, schema_editor: Any) -> None:
    group = apps.get_model("auth", "Group")
    for name in NAMES:
        group.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    """The groups that give a role on every table. Kept on the way back: people may be in them."""

    dependencies = [
        ("catalog", "0002_table_grant"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
