"""Sides of joins small enough to broadcast to every task, so that the other side is not shuffled.

Spark guesses the bytes of a side from its plan; here they were counted.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.spark.collection import MOST_BYTES, RESULT_LIMIT
from engine.spark.data_source_options import size_in_bytes

_DEFAULT_LIMIT = "1g"
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


def broadcast_if_small(frame: DataFrame, size: int) -> DataFrame:
    """Mark the frame for broadcast if its `size` in bytes allows it.

    Spark first builds the whole table on the driver, which takes several times its bytes.
    """
    if size > MOST_BYTES:
        return frame
    settings = frame.sparkSession.conf
    threshold, limit = (settings.get(name, None) for name in (_THRESHOLD, RESULT_LIMIT))
    return F.broadcast(frame) if may_send(size, threshold or "", limit or "") else frame


def may_send(size: int, threshold: str, limit: str) -> bool:
    """Whether a side of this many bytes may be broadcast.

    It may not if the session's `threshold` disables broadcast joins (negative) or if the driver's
    result `limit` is less than twice the size. Empty texts stand for Spark's defaults.
    """
    most = size_in_bytes(limit or _DEFAULT_LIMIT)
    if threshold.startswith("-") or size > MOST_BYTES or most is None:
        return False
    return most == 0 or 2 * size <= most
