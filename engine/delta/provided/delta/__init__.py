"""The package `delta` for programs that import it: its classes are those of `engine.delta`."""

from engine.delta.delta_package import __version__, configure_spark_with_delta_pip, serve_delta
from engine.delta.tables import DeltaTable

__all__ = ["DeltaTable", "__version__", "configure_spark_with_delta_pip"]

serve_delta()
