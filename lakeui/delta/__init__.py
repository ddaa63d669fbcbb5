"""`engine.delta` under a name that other packages do not have.

Programs import from here: `from lakeui.delta import DeltaTable, enable`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from engine.delta import DeltaTable as DeltaTable
    from engine.delta import configure as configure
    from engine.delta import enable as enable
    from engine.delta import flush_reports as flush_reports
    from engine.delta import provide_delta as provide_delta
    from engine.delta import reporting as reporting

_own = Path(__file__).resolve().parents[2] / "engine" / "__init__.py"
if not engine.__file__ or Path(engine.__file__).resolve() != _own:
    found = engine.__file__ or str(*engine.__path__[:1])
    msg = f"{found} is imported as `engine` and hides lakeui's package of the same name. Rename it."
    raise ImportError(msg)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is requested
    """Return what `engine.delta` has under the name."""
    import engine.delta  # noqa: PLC0415 - reporting needs no Spark, and loads as little

    return getattr(engine.delta, name)
