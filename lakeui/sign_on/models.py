"""Accounts of a provider's subjects, and signed-in browsers."""

import uuid

from django.conf import settings
from django.db import models


class LinkedIdentity(models.Model):
    """A subject of an issuer, and its account. Names and e-mail addresses decide nothing."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities"
    )
    issuer = models.CharField(max_length=255)  # "proxy" for users named by a proxy
    subject = models.CharField(max_length=255)
    email = models.EmailField(blank=True)  # the issuer's latest; blank takes the next one
    linked_at = models.DateTimeField(auto_now_add=True)
    last_sign_in_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "linked identities"
        ordering = ["user", "issuer", "subject"]
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_account_a_subject")
        ]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class Way(models.TextChoices):
    """A person's way of signing in."""

    PASSWORD = "password", "password"
    LINK = "link", "a link"
    OPENID = "openid", "OpenID Connect"
    PROXY = "proxy", "a proxy"


class BrowserSession(models.Model):
    """A signed-in browser, beside Django's session of the same key, which ends it."""

    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="browser_sessions"
    )
    session_key = models.CharField(max_length=40, unique=True)
    way = models.CharField(max_length=10, choices=Way.choices)
    address = models.CharField(max_length=45, blank=True)
    browser = models.CharField(max_length=200, blank=True)  # as it calls itself
    started_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-started_at", "-id"]

    def __str__(self) -> str:
        return f"{self.user_id} by {self.way} {self.started_at:%Y-%m-%d %H:%M}"
