"""What comes back to the driver: small reports of tasks, and rows that are few."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

_LIMIT = "spark.driver.maxResultSize"


def collected(frame: DataFrame) -> pa.Table | None:
    """The rows; None where they are more bytes than Spark sends to its driver."""
    try:
        return frame.toArrow()
    except PySparkException as error:
        if _LIMIT not in str(error):
            raise
        return None
