"""The engine for PySpark programs: the API of `delta.tables`, and extensions of it.

Programs import from here: `from engine.delta import DeltaTable, enable`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.delta.delta_package import provide_delta as provide_delta
    from engine.delta.session_hooks import enable as enable
    from engine.delta.tables import DeltaTable as DeltaTable
    from engine.reports.other_engines import reporting as reporting
    from engine.reports.settings import configure as configure
    from engine.reports.settings import flush_reports as flush_reports

_HOMES = {
    "DeltaTable": ("engine.delta.tables", "DeltaTable"),
    "configure": ("engine.reports.settings", "configure"),
    "enable": ("engine.delta.session_hooks", "enable"),
    "flush_reports": ("engine.reports.settings", "flush_reports"),
    "provide_delta": ("engine.delta.delta_package", "provide_delta"),
    "reporting": ("engine.reports.other_engines", "reporting"),
}
_MODULES = ("exceptions", "tables")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is requested
    """Import an attribute on first use: reporting needs no Spark."""
    if name in _MODULES:
        return import_module(f"engine.delta.{name}")
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module, attribute = _HOMES[name]
    if module.startswith("engine.delta"):
        import_module("engine.spark")  # it says what to install where PySpark is missing
    return getattr(import_module(module), attribute)


if "py4j" in sys.modules:  # Spark is loaded: convert delta-spark's exceptions from now on
    import_module("engine.delta.exceptions")
