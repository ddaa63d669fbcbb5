from django.apps import AppConfig
from django.core.checks import register
from django.db.models.signals import post_save


class MonitoringConfig(AppConfig):
    name = "lakeui.monitoring"
    label = "monitoring"
    verbose_name = "Alerts and muted checks"

    def ready(self) -> None:
        """Start recording the tables of audit entries, and check the settings of lineage."""
        from lakeui.monitoring.audit import keep_tables  # noqa: PLC0415 - models are ready now
        from lakeui.monitoring.lineage.outbox import check_lineage  # noqa: PLC0415 - as above

        register(check_lineage)

        post_save.connect(keep_tables, "auditlog.LogEntry", dispatch_uid="audited-tables")
