"""Texts that the database keeps and a copy of it does not give away: sealed by `SECRET_KEY`."""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from engine.errors import RequestError

_PURPOSE = b"lakeui.monitoring.alerting"


def seal(text: str) -> str:
    """The text as only this installation can read it."""
    return _fernet().encrypt(text.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """What was sealed.

    Raises:
        RequestError: `SECRET_KEY` has been another since.
    """
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        msg = "What the channel keeps was sealed by another SECRET_KEY and cannot be read."
        raise RequestError(msg, "Enter the channel's target again.", field="target") from error


def _fernet() -> Fernet:
    key = HKDF(SHA256(), 32, None, _PURPOSE).derive(settings.SECRET_KEY.encode())
    return Fernet(base64.urlsafe_b64encode(key))
