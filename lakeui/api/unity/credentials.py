"""Credentials of a table's location for clients of the catalog.

A local location needs none. The keys of an S3 bucket are handed out only if the administrator
allows it: they open every table under their prefix, for as long as they are valid.
"""

from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from engine.storage.uri import local_path
from lakeui.api.unity.errors import REFUSED, UnityError
from lakeui.catalog.roots import check_table_uri, storage_options

LIFETIME = timedelta(hours=1)
_KEYS = ("access_key_id", "secret_access_key", "session_token")


def vend(location: str) -> Mapping[str, str]:
    """Return the keys of a location, without the prefix `aws_`; none for a local one.

    Raises:
        UnityError: they cannot be handed out.
        PathOutsideRootError: the location no longer lies under an allowed root.
    """
    place = check_table_uri(location)
    if local_path(place) is not None:
        return {}
    scheme = place.partition(":")[0]
    options = {
        name.lower().removeprefix("aws_"): text for name, text in storage_options(place).items()
    }
    keys = {name: options[name] for name in _KEYS if name in options}
    if scheme != "s3" or not {"access_key_id", "secret_access_key"} <= keys.keys():
        what = f"This catalog has no credentials for {scheme} locations to hand out."
        raise UnityError(REFUSED, f"{what} Give the client its own.")
    if not settings.CATALOG_VENDS_KEYS:
        what = "This catalog does not hand out its keys for S3."
        raise UnityError(REFUSED, f"{what} Give the client its own, or set CATALOG_VENDS_KEYS=1.")
    return keys


def expiry_ms() -> int:
    """Return when a client must ask again."""
    return round((timezone.now() + LIFETIME).timestamp() * 1000)
