import engine.spark  # noqa: F401 - it says what to install where PySpark is missing
