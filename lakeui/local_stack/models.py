"""The embedded stack's state between runs."""

from django.conf import settings
from django.db import models

from lakeui.jobs.models import Job


class LoginLink(models.Model):
    """A link that signs its user in, once. Only a digest of its nonce is stored."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="login_links"
    )
    nonce_digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"link of {self.user_id}"


class DemoStep(models.Model):
    """One step of the demo lake: a job requested when the steps before it have ended."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        REMOVED = "removed"  # removed with the demo: the next start does not recreate it

    key = models.CharField(max_length=60, unique=True)
    position = models.PositiveSmallIntegerField()
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    message = models.TextField(blank=True)

    class Meta:
        ordering = ["position"]

    def __str__(self) -> str:
        return self.title
