"""The mirror read-only, grants to edit, and the audit log of both and of people's roles."""

from auditlog.registry import auditlog
from django.contrib import admin
from django.contrib.auth.models import User
from django.forms import ModelForm
from django.http import HttpRequest

from lakeui.catalog.models import (
    Commit,
    CommitFile,
    CommitHour,
    DiscoveredTable,
    Discovery,
    LiveFile,
    Preview,
    RowRead,
    Table,
    TableGrant,
    TableKey,
    TableSync,
    UnregisteredTable,
)
from lakeui.catalog.read_only_admin import InternalAdmin, ReadOnlyInline, register_rows
from lakeui.catalog.schema_rows import top_fields
from lakeui.managed.models import (
    CommitAttempt,
    ManagedCatalog,
    ManagedSchema,
    ManagedTable,
    RatifiedVersion,
    ReservedTable,
)

EDITABLE = ("name", "description")

auditlog.register(Discovery, include_fields=["root", "match", "naming", "requested_by"])
auditlog.register(Table, include_fields=["name", "uri", "description"])
auditlog.register(TableGrant, include_fields=["table", "user", "role"])
auditlog.register(
    TableKey,
    include_fields=["table", "kind", "name", "columns", "references", "referenced_columns"],
)
auditlog.register(ManagedCatalog, include_fields=["name", "comment", "storage_root"])
auditlog.register(ManagedSchema, include_fields=["catalog", "name", "comment"])
auditlog.register(ManagedTable, include_fields=["full_name", "location", "dropped_at"])
auditlog.register(
    User,
    include_fields=["username", "is_active", "is_staff", "is_superuser", "password"],
    mask_fields=["password"],  # record the change, not the value
    mask_callable="lakeui.catalog.admin.mask_value",
    m2m_fields={"groups"},
)


def mask_value(_value: str) -> str:
    """Mask a password's hash for the audit log."""
    return "…"


class GrantInline(admin.TabularInline):
    """The people with a role on this table only."""

    model = TableGrant
    fk_name = "table"
    extra = 0
    fields = ["user", "role", "granted_at", "granted_by"]
    readonly_fields = ["granted_at", "granted_by"]
    autocomplete_fields = ["user"]


@admin.register(Table)
class TableAdmin(admin.ModelAdmin):
    """Tables are registered by form, REST or command. Deleting one would take its jobs' history."""

    list_display = [
        "name",
        "version",
        "isolation_level",
        "row_level_eligible",
        "file_count",
        "size_bytes",
        "last_commit_at",
        "mirrored_at",
        "mirror_error_code",
    ]
    list_filter = ["isolation_level", "row_level_eligible", "deletion_vectors", "mirror_error_code"]
    search_fields = ["name", "uri", "description"]
    date_hierarchy = "registered_at"
    exclude = ["schema"]
    inlines = [GrantInline]
    list_per_page = 50

    def get_readonly_fields(self, _request: HttpRequest, _obj: Table | None = None) -> list[str]:
        names = [field.name for field in Table._meta.fields if field.name not in EDITABLE]
        return ["columns" if name == "schema" else name for name in names]

    @admin.display(description="schema")
    def columns(self, table: Table) -> str:
        """Return the number of columns: the table's page shows a schema, which may be megabytes."""
        return f"{len(top_fields(table)):,} top-level columns"

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Table | None = None) -> bool:
        return False

    def save_formset(
        self, request: HttpRequest, _form: ModelForm, formset: object, _change: bool
    ) -> None:
        for grant in formset.save(commit=False):  # type: ignore[attr-defined]
            grant.granted_by = grant.granted_by or request.user
            grant.save()
        for grant in formset.deleted_objects:  # type: ignore[attr-defined]
            grant.delete()


@admin.register(TableGrant)
class TableGrantAdmin(admin.ModelAdmin):
    list_display = ["table", "user", "role", "granted_at", "granted_by"]
    list_filter = ["role"]
    search_fields = ["table__name", "user__username"]
    list_select_related = ["table", "user", "granted_by"]
    autocomplete_fields = ["table", "user"]
    readonly_fields = ["granted_at", "granted_by"]

    def save_model(
        self, request: HttpRequest, obj: TableGrant, form: ModelForm, change: bool
    ) -> None:
        if not change and isinstance(request.user, User):
            obj.granted_by = request.user
        super().save_model(request, obj, form, change)


# Keys, declared and removed on the table's schema page, which checks their columns.
register_rows(
    TableKey,
    "table kind name columns references declared_at declared_by",
    search="table__name name references",
    filters="kind",
)


class CommitFileInline(ReadOnlyInline):
    model = CommitFile
    fields = ["action", "path", "size_bytes", "row_count", "deleted_row_count"]


register_rows(
    Commit,
    "table version committed_at operation user_name isolation_level files_added files_removed",
    search="table__name user_name txn_id predicate user_metadata",
    filters="operation isolation_level is_blind_append changes_metadata",
    date_hierarchy="committed_at",
    inlines=[CommitFileInline],
)
register_rows(
    CommitHour,
    "hour commits",
    search="hour",
    filters="hour",
    base=InternalAdmin,
    date_hierarchy="hour",
)
register_rows(
    CommitFile,
    "commit action path size_bytes row_count data_change",
    search="path commit__table__name",
    filters="action data_change",
)

# First readings of logs, requested or under way.
register_rows(
    TableSync,
    "table requested_at started_at seen_at stage done total",
    search="table__name",
    filters="stage",
    base=InternalAdmin,
)

# Requested previews; the rows are on their page, for people who may see the table.
register_rows(
    Preview,
    "table version asked_at read_at error_code",
    search="table__name error_message",
    filters="error_code",
    base=InternalAdmin,
    exclude=["columns", "rows"],
)

# Reads that people wait for.
register_rows(
    RowRead,
    "subject table requested_by asked_at began_at worker",
    search="table__name subject",
    base=InternalAdmin,
)
register_rows(
    LiveFile,
    "table path size_bytes row_count deleted_row_count modified_at",
    search="path table__name",
    filters="table",
)
register_rows(
    Discovery,
    "root match requested_by requested_at finished_at examined",
    search="root match",
    filters="is_complete",
)
register_rows(DiscoveredTable, "place name discovery", search="place name")
register_rows(
    UnregisteredTable,
    "place discovery found_at is_dismissed",
    search="place",
    filters="is_dismissed",
)
register_rows(
    ManagedCatalog, "name comment storage_root created_at created_by", search="name comment"
)
register_rows(
    ManagedSchema,
    "name catalog comment created_at created_by",
    search="name catalog__name comment",
    filters="catalog",
)
register_rows(
    ReservedTable,
    "name schema table_id location reserved_at reserved_by",
    search="name schema__name location",
    list_select_related=["schema__catalog", "reserved_by"],
    base=InternalAdmin,
)

# The tables of the catalog; a dropped table keeps its rows and files.
register_rows(
    ManagedTable,
    "full_name table_id latest_version published_version created_at dropped_at",
    search="full_name location",
    filters="schema__catalog dropped_at",
)
register_rows(
    RatifiedVersion,
    "table version file_name ratified_at user token_name client",
    search="table__full_name file_name client",
)

# Commits that were refused, and what the comparison with the commits before them says.
register_rows(
    CommitAttempt,
    "table version refused_at user client operation verdict rule retried_version",
    search="table__full_name file_name client operation",
    filters="verdict",
)
