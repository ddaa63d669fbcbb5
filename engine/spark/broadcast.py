"""Sides of joins that are small enough to be sent to every task: the other side is not shuffled then.

Spark guesses the bytes of a side from its plan; here they were counted.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.spark.collection import MOST_BYTES, RESULT_LIMIT
from engine.spark.data_source_options import size_in_bytes

_DEFAULT_LIMIT = "1g"
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


def broadcast_if_small(frame: DataFrame, size: int) -> DataFrame:
    """The frame, to be sent to every task where its `size` in bytes allows that.

    Spark makes a table of it on the driver first, of some times its bytes.
    """
    if size > MOST_BYTES:
        return frame
    settings = frame.sparkSession.conf
    threshold, limit = (settings.get(name, None) for name in (_THRESHOLD, RESULT_LIMIT))
    return F.broadcast(frame) if may_send(size, threshold or "", limit or "") else frame


def may_send(size: int, threshold: str, limit: str) -> bool:
    """Whether so many bytes may be sent to every task.

    Not where the session's `threshold` of such joins is negative, so that it has none, nor where its
    driver's `limit` of results is not twice as large. Empty texts are Spark's defaults.
    """
    most = size_in_bytes(limit or _DEFAULT_LIMIT)
    if threshold.startswith("-") or size > MOST_BYTES or most is None:
        return False
    return most == 0 or 2 * size <= most
