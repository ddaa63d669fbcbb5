"""Random directories to spread a large table's files over an object store's key space."""

import secrets
import string

_ALPHANUMERIC = string.ascii_letters + string.digits


def random_prefix(length: int) -> str:
    """Return random characters, safe in paths and in the log; "" for length 0."""
    return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(length))
