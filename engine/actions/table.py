"""Actions on a table's definition.

Protocol: Change Metadata, Protocol Evolution, Transaction Identifiers, Domain Metadata.
"""

import msgspec

from engine.actions.integers import Long


class Format(msgspec.Struct, frozen=True):
    """The files' format: always parquet."""

    provider: str = "parquet"
    options: dict[str, str | None] = {}


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """`schema_string` is Delta's schema JSON, `configuration` the properties, `created_time` in ms.

    An empty schema is not yet defined: pipelines create some tables this way and define them later.
    Until then there is nothing to read.
    """

    id: str
    schema_string: str = ""
    format: Format = Format()
    partition_columns: list[str] = []
    configuration: dict[str, str] = {}
    name: str | None = None
    description: str | None = None
    created_time: Long | None = None


class Protocol(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Versions readers and writers must support; feature lists exist only at (3, 7) (writer: 7)."""

    min_reader_version: Long
    min_writer_version: Long
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class SetTransaction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The last `version` an application committed. `last_updated` in ms."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A named configuration; `removed` deletes it."""

    domain: str
    configuration: str
    removed: bool
