"""What people decided about the checks that ask for their attention; which tables the trail names."""

from auditlog.models import LogEntry
from django.conf import settings
from django.db import models

from lakeui.catalog.models import Table
from lakeui.monitoring.checks import Check


class Mute(models.Model):
    """A check that says nothing until a moment: of one table, or of all where none is named."""

    about = models.CharField(max_length=20)  # a value of `checks.Check`
    table = models.ForeignKey(
        Table, null=True, blank=True, on_delete=models.CASCADE, related_name="mutes"
    )
    until = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True)
    muted_at = models.DateTimeField(auto_now_add=True)
    muted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["until", "id"]
        constraints = [
            models.UniqueConstraint(fields=["about", "table"], name="one_mute_a_check_and_table"),
            models.UniqueConstraint(
                fields=["about"],
                condition=models.Q(table__isnull=True),
                name="one_mute_a_check_of_all",
            ),
        ]
        indexes = [models.Index(fields=["until"], name="mute_by_end")]

    def __str__(self) -> str:
        return f"{self.about} of {self.table_id or 'all tables'} until {self.until:%Y-%m-%d}"

    @property
    def label(self) -> str:
        """What the check is called."""
        return str(Check(self.about).label) if self.about in Check.values else self.about


class AuditedTable(models.Model):
    """A table that an entry of the audit trail names; a number, for the trail outlives the table."""

    entry = models.ForeignKey(LogEntry, on_delete=models.CASCADE, related_name="audited_tables")
    table_pk = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table_pk", "entry"], name="one_entry_a_table_and_name")
        ]

    def __str__(self) -> str:
        return f"entry {self.entry_id} on table {self.table_pk}"
