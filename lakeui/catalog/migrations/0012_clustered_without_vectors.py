from django.apps.registry import Apps
from django.db import migrations

_REASON = "delta.enableDeletionVectors is not set"
_SUPPORTED, _ENABLED = "deletion vectors supported", "deletion vectors enabled"


def not_eligible(apps: Apps, _editor: object) -> None:
    """Clustered tables without deletion vectors were called eligible: rows cannot be told apart there."""
    tables = apps.get_model("catalog", "Table").objects
    for table in tables.filter(row_level_eligible=True, deletion_vectors=False):
        table.row_level_eligible = False
        table.row_level_reason = _REASON
        supported = "deletionVectors" in table.reader_features
        for condition in table.row_level_conditions:
            if condition["name"] == _ENABLED or (condition["name"] == _SUPPORTED and not supported):
                condition["holds"] = False
        table.save(
            update_fields=["row_level_eligible", "row_level_reason", "row_level_conditions"]
        )


class Migration(migrations.Migration):
    dependencies = [("catalog", "0011_table_sums")]

    operations = [migrations.RunPython(not_eligible, migrations.RunPython.noop)]
