from django.apps import AppConfig
from django.db.models.signals import pre_delete


class ConflictsConfig(AppConfig):
    name = "lakeui.conflicts"
    label = "conflicts"

    def ready(self) -> None:
        """Have the conflicts of a table leave the sums with it."""
        from lakeui.conflicts.days import count_out  # noqa: PLC0415 - models are ready now

        pre_delete.connect(count_out, "catalog.Table", dispatch_uid="conflict-days")
