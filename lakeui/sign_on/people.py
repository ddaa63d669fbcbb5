"""The account of an identity, and its role there by its groups.

Only the issuer's subject decides: a name or an e-mail address may be given to somebody else, or be
claimed. A local account belongs to a subject only after an administrator linked it. The provider's
groups apply from each sign-in on, for tokens too.
"""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from lakeui.catalog.roles import Role
from lakeui.sign_on.configuration import EVERYBODY, roles_of_groups
from lakeui.sign_on.errors import (
    AccountDisabledError,
    AccountNameTakenError,
    EmailChangedError,
    InvalidNameError,
    NoGroupError,
)
from lakeui.sign_on.models import LinkedIdentity, Way

_MAX_NAME = 150


@dataclass(frozen=True, slots=True)
class Identity:
    """An issuer's claims about a person."""

    way: Way
    issuer: str
    subject: str
    name: str
    email: str = ""
    groups: tuple[str, ...] | None = None  # None: it does not say


def account_of(identity: Identity) -> User:
    """Return the account of an identity, created if new, with its groups' role.

    Raises:
        SignOnError: the person is refused, with the reason.
    """
    link = _link_of(identity)
    if link is None:
        _check_groups(identity)
        return _create_user(identity)
    user = link.user
    if not user.is_active:
        raise AccountDisabledError(user.username)
    _take_roles(user, identity)
    _check_groups(identity)
    if _is_new_email(link, identity) and not settings.OIDC_FOLLOW_EMAIL:
        raise EmailChangedError(user.username, identity.email)
    _keep(link, identity)
    return user


def link(user: User, issuer: str, subject: str) -> LinkedIdentity:
    """Let a subject sign in to a local account.

    Raises:
        ValidationError: the subject is linked already, or is invalid.
    """
    made = LinkedIdentity(user=user, issuer=issuer, subject=subject)
    made.full_clean()
    made.save()
    return made


def _link_of(identity: Identity) -> LinkedIdentity | None:
    links = LinkedIdentity.objects.filter(issuer=identity.issuer, subject=identity.subject)
    return links.select_related("user").first()


def _create_user(identity: Identity) -> User:
    name = User.normalize_username(identity.name.strip())  # as it will be kept
    _check_name(name)
    taken = AccountNameTakenError(name, identity.issuer, identity.subject)
    if User.objects.filter(username__iexact=name).exists():
        raise taken
    try:
        with transaction.atomic():
            user = User.objects.create_user(name, identity.email)
            _keep(link(user, identity.issuer, identity.subject), identity)
            _take_roles(user, identity)
    except (IntegrityError, ValidationError):  # another request just created it
        raise taken from None
    return user


def _is_new_email(link: LinkedIdentity, identity: Identity) -> bool:
    before, now = link.email.casefold(), identity.email.casefold()
    return bool(before and now and before != now)


def _keep(link: LinkedIdentity, identity: Identity) -> None:
    link.last_sign_in_at = timezone.now()
    link.email = identity.email or link.email
    link.save(update_fields=["last_sign_in_at", "email"])
    if identity.email and link.user.email != identity.email:
        link.user.email = identity.email
        link.user.save(update_fields=["email"])


def _check_name(name: str) -> None:
    try:
        User.username_validator(name)
    except ValidationError:
        raise InvalidNameError(name) from None
    if len(name) > _MAX_NAME:
        raise InvalidNameError(name)


def _check_groups(identity: Identity) -> None:
    roles = roles_of_groups()
    if roles and not roles.keys() & {*(identity.groups or ()), EVERYBODY}:
        claim = settings.OIDC_GROUPS_CLAIM
        if identity.way is Way.PROXY:
            claim = settings.PROXY_GROUPS_HEADER or "PROXY_GROUPS_HEADER"
        raise NoGroupError(identity.name, claim, is_said=identity.groups is not None)


def _take_roles(user: User, identity: Identity) -> None:
    """Set the highest role of the identity's groups, and no other; without a map, roles stay."""
    roles = roles_of_groups()
    if not roles:
        return
    given = [roles.get(group) for group in (*(identity.groups or ()), EVERYBODY)]
    role = max((role for role in given if role is not None), default=None)
    labels_given = set() if role is None else {role.label}
    labels = [role.label for role in Role]
    groups = {group.name: group for group in user.groups.filter(name__in=labels)}
    if groups.keys() != labels_given:
        user.groups.remove(*(group for name, group in groups.items() if name not in labels_given))
        user.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in labels_given))
