"""When the Iceberg metadata of a table follows its log.

pyiceberg takes half a second to load, and few tables need it: it is loaded when one does.
"""

from collections.abc import Sequence

from engine.log.replay import TableState
from engine.protocol.iceberg_compat import is_iceberg
from engine.protocol.properties import TableProperties
from engine.storage.base import Store


def refresh_iceberg(
    store: Store, state: TableState, now_ms: int, allowed_roots: Sequence[str] = ()
) -> int | None:
    """Bring the Iceberg metadata up to a version, if the table has any.

    Returns:
        The number of the metadata's version; None if nothing was needed.

    Raises:
        EngineError: the table is not readable as Iceberg, or the store fails.
    """
    if not is_iceberg(TableProperties.parse(state.metadata.configuration)):
        return None
    from engine.iceberg.conversion import convert  # noqa: PLC0415 - loads pyiceberg

    return convert(store, state, now_ms, tuple(allowed_roots))
