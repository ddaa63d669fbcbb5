"""Texts encrypted in the database by `SECRET_KEY`, so that a copy of it does not reveal them."""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from engine.errors import RequestError

_PURPOSE = b"lakeui.monitoring.alerting"


def seal(text: str) -> str:
    """Encrypt a text for this installation alone."""
    return _fernet().encrypt(text.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """Decrypt a text.

    Raises:
        RequestError: `SECRET_KEY` has changed since.
    """
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        msg = "What the channel keeps was sealed by another SECRET_KEY and cannot be read."
        raise RequestError(msg, "Enter the channel's target again.", field="target") from error


def _fernet() -> Fernet:
    key = HKDF(SHA256(), 32, None, _PURPOSE).derive(settings.SECRET_KEY.encode())
    return Fernet(base64.urlsafe_b64encode(key))
