"""Permissions: the actions of each person on each table.

A role comes from the groups "reporter", "viewer", "operator", "maintainer" and "admin" (on every
table) and from `TableGrant` (on one); the higher counts. Superusers are admins. A table is hidden
from people without a role on it, and from reporters. A token may limit its owner to a lower role:
the authentication sets this limit as `role_ceiling` on the user.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Max, Q, QuerySet, prefetch_related_objects

from engine.vocabulary import OPERATION_OF_COMMAND, Changes, StatementKind
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import REPORTERS, Role

Person = User | AnonymousUser

ACTIONS: Mapping[str, Role] = {
    "view": Role.VIEWER,
    "write": Role.OPERATOR,
    "maintain": Role.MAINTAINER,
    "admin": Role.ADMIN,
}

MIN_VACUUM_RETENTION_HOURS = 168
RETENTION_PROPERTIES = frozenset(
    {"delta.deletedfileretentionduration", "delta.logretentionduration"}
)


def role_of(user: Person, table: Table | None = None) -> Role | None:
    """Return a person's role on a table, or on every table if none is named; None: sees nothing."""
    if not isinstance(user, User) or not user.is_active:
        return None
    role = _global_role(user)
    if role is not Role.ADMIN:  # no grant raises an administrator
        granted = _find_granted_role(user, table)
        role = max((one for one in (role, granted) if one is not None), default=None)
    role = role if role is None else _apply_ceiling(user, role)
    return role if role is not None and role >= Role.VIEWER else None


def lock_person(person: User) -> None:
    """Keep other transactions from counting the person's objects until this transaction ends."""
    User.objects.select_for_update(no_key=True).filter(pk=person.pk).first()


def may(user: Person, action: str, table: Table | None = None) -> bool:
    """Whether a person may "view", "write", "maintain" or "admin" a table, or tables in general."""
    role = role_of(user, table)
    return role is not None and role >= ACTIONS[action]


def highest_role(user: Person) -> Role | None:
    """Return a person's highest role on all tables or on any one, including reporter."""
    if not isinstance(user, User) or not user.is_active:
        return None
    granted = TableGrant.objects.filter(user=user).aggregate(highest=Max("role"))["highest"]
    roles = [_global_role(user), None if granted is None else Role(granted)]
    return max((_apply_ceiling(user, role) for role in roles if role is not None), default=None)


def visible_tables(user: Person) -> QuerySet[Table]:
    """Return the tables visible to a person."""
    if role_of(user) is not None:
        return Table.objects.all()
    if not isinstance(user, User) or not user.is_active:
        return Table.objects.none()
    if _ceiling(user) is Role.REPORTER:
        return Table.objects.none()
    return Table.objects.filter(grants__user=user, grants__role__gte=Role.VIEWER)


def tables_to_report(user: Person) -> QuerySet[Table]:
    """Return the tables whose conflicts a person's programs may report."""
    if not isinstance(user, User) or not user.is_active:
        return Table.objects.none()
    if _ceiling(user) not in (None, *REPORTERS):
        return Table.objects.none()
    if user.is_superuser or not set(_group_roles(user)).isdisjoint(REPORTERS):
        return Table.objects.all()
    return Table.objects.filter(grants__user=user, grants__role__in=REPORTERS)


def tables_where(user: Person, action: str) -> QuerySet[Table]:
    """Return the tables on which a person may do an action, in one query."""
    if not isinstance(user, User) or not user.is_active:
        return Table.objects.none()
    needed = ACTIONS[action]
    ceiling = _ceiling(user)
    if ceiling is not None and ceiling < needed:
        return Table.objects.none()
    role = _global_role(user)
    if role is not None and role >= needed:
        return Table.objects.all()
    return Table.objects.filter(grants__user=user, grants__role__gte=needed)


def admins() -> QuerySet[User]:
    """Return the people who can give roles on every table, by name."""
    able = Q(is_superuser=True) | Q(groups__name=Role.ADMIN.label)
    return User.objects.filter(able, is_active=True).distinct().order_by("username")


def action_for_kind(kind: str, parameters: Mapping[str, Any]) -> str:
    """Return the action of a job: "admin" for irreversible and unknown kinds."""
    if kind in ("script", "transaction"):
        return _strictest(parameters)
    operation = OPERATION_OF_COMMAND.get(kind)
    if operation is None or operation.statement is StatementKind.RESTORE:
        return "maintain" if kind == "register" else "admin"
    if operation.changes == Changes.ROWS:
        changes_schema = parameters.get("merge_schema") or parameters.get("overwrite_schema")
        return "maintain" if changes_schema else "write"
    if kind == "vacuum":
        is_final = _spares_too_little(parameters)
    else:
        is_final = bool(parameters.get("truncate_history")) or _touches_retention(parameters)
    return "admin" if is_final else "maintain"


def _strictest(parameters: Mapping[str, Any]) -> str:
    """Return the strictest action of a script's steps; the steps are checked one by one."""
    steps = parameters.get("steps")
    listed_steps = steps if isinstance(steps, list) else []
    needed = [
        action_for_kind(str(step.get("kind")), step.get("parameters") or {})
        for step in listed_steps
        if isinstance(step, Mapping)
    ]
    return max(needed, key=ACTIONS.__getitem__, default="write")


def _global_role(user: User) -> Role | None:
    if user.is_superuser:
        return Role.ADMIN
    return max(_group_roles(user), default=None)


def _group_roles(user: User) -> list[Role]:
    prefetch_related_objects([user], "groups")  # cached for each loaded person
    roles = (Role.from_label(group.name) for group in user.groups.all())
    return [role for role in roles if role is not None]


def _find_granted_role(user: User, table: Table | None) -> Role | None:
    if table is None or table.pk is None:
        return None
    granted = TableGrant.objects.filter(user=user, table=table).values_list("role", flat=True)
    return max((Role(value) for value in granted), default=None)


def _apply_ceiling(user: User, role: Role) -> Role:
    ceiling = _ceiling(user)
    return role if ceiling is None else min(role, ceiling)


def _ceiling(user: User) -> Role | None:
    return getattr(user, "role_ceiling", None)


def _spares_too_little(parameters: Mapping[str, Any]) -> bool:
    hours = parameters.get("retention_hours")
    if parameters.get("override_retention"):
        return True
    if hours is None or hours == "":
        return False
    try:
        return not float(hours) >= MIN_VACUUM_RETENTION_HOURS
    except (TypeError, ValueError):
        return True


def _touches_retention(parameters: Mapping[str, Any]) -> bool:
    named: list[Any] = []
    for field in ("properties", "keys"):
        value = parameters.get(field)
        if isinstance(value, Iterable) and not isinstance(value, str):
            named.extend(value)
    return any(str(name).strip().lower() in RETENTION_PROPERTIES for name in named)
