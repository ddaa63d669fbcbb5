"""Tables in S3, Google Cloud Storage and Azure Blob Storage, through obstore."""

from collections.abc import Mapping

from engine.errors import UnsupportedSchemeError
from engine.storage.base import Store

OBJECT_SCHEMES = frozenset({"s3", "gs", "az"})


def open_object_store(root: str, storage_options: Mapping[str, str]) -> Store:
    """The store of a table in an object store."""
    del storage_options
    msg = f"{root} is in an object store."
    raise UnsupportedSchemeError(msg)
