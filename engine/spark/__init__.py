"""The engine on Spark; it needs the packages of the extra `spark`."""

from importlib.util import find_spec

if find_spec("pyspark") is None:
    _MISSING = "PySpark is not installed. Statements need it: pip install 'lakeui[spark]'."
    raise ModuleNotFoundError(_MISSING, name="pyspark")
