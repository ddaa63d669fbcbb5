"""Links that sign a person in without a password: once, and only for a while."""

import hashlib
import secrets

from django.contrib.auth.models import User
from django.core import signing
from django.utils import timezone

from lakeui.local_stack.models import LoginLink

VALID_S = 3600
_SALT = "lakeui.local_stack.login_links"


def make_link_token(user: User) -> str:
    """Return a token for a link of this user; an unused older one stays valid."""
    nonce = secrets.token_urlsafe(24)
    LoginLink.objects.create(user=user, nonce_digest=_digest(nonce))
    return signing.dumps(nonce, salt=_SALT)


def redeem(token: str) -> User | None:
    """Spend a link and return its user; None if it is spent, expired or not ours."""
    try:
        nonce = signing.loads(token, salt=_SALT, max_age=VALID_S)
    except signing.BadSignature:
        return None
    fresh = LoginLink.objects.filter(nonce_digest=_digest(str(nonce)), used_at=None)
    link = fresh.select_related("user").first()
    if link is None or not link.user.is_active:
        return None
    spent = fresh.filter(pk=link.pk).update(used_at=timezone.now())
    return link.user if spent else None


def _digest(nonce: str) -> str:
    return hashlib.sha256(nonce.encode()).hexdigest()
