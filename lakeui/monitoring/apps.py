from django.apps import AppConfig
from django.db.models.signals import post_save


class MonitoringConfig(AppConfig):
    name = "lakeui.monitoring"
    label = "monitoring"
    verbose_name = "Alerts and muted checks"

    def ready(self) -> None:
        """Have the tables kept that entries of the audit log name."""
        from lakeui.monitoring.audited_tables import keep_tables  # noqa: PLC0415 - models are ready now

        post_save.connect(keep_tables, "auditlog.LogEntry", dispatch_uid="audited-tables")
