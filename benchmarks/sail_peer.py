"""What Sail takes, in an environment of its own: this imports nothing of the repository but its twin.

`python sail_peer.py statements|turns PLAN` writes what `delta_spark_peer` writes. Tables are there.
"""

import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from delta_spark_peer import do, landed, seconds_of, sum_of_ids, turns
from pysail.spark import SparkConnectServer  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession


def main(part: str, plan: str) -> None:
    """Do a part, and write what it took."""
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    address = f"sc://127.0.0.1:{server.listening_address[1]}"
    spark = SparkSession.builder.remote(address).getOrCreate()
    work = json.loads(plan)
    if part == "turns":
        took = turns(_Session(spark), "", work)  # type: ignore[arg-type]  # it asks for `sql` alone
    else:
        took = statements(spark, work)
    sys.stdout.write(json.dumps(took) + "\n")
    sys.stdout.flush()
    spark.stop()
    server.stop()


def statements(spark: SparkSession, work: dict[str, Any]) -> dict[str, Any]:
    """Seconds by kind of small statement, what the writers of one file landed, and a sum of ids."""
    took = {}
    for kind, texts in work["statements"].items():
        times = [seconds_of(lambda text=text: do(spark, text, work["small"])) for text in texts]
        took[kind] = median(times[work["warm_up"] :])
    began = time.perf_counter()
    with ThreadPoolExecutor(len(work["writers"])) as pool:
        count = sum(pool.map(lambda texts: landed(spark, texts, work["shared"]), work["writers"]))
    spent = time.perf_counter() - began
    total = sum_of_ids(spark, work["small"])
    return {"took": took, "landed": count, "seconds": spent, "sum": total}


class _Session:
    """Sail inserts into a path by a DataFrame, not by SQL."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def sql(self, text: str) -> DataFrame:
        """Return a statement's result."""
        insert = _INSERT.fullmatch(text)
        if insert is None:
            return self._spark.sql(text)
        self._spark.sql(insert["rows"]).write.format("delta").mode("append").save(insert["place"])
        return self._spark.range(0)


_INSERT = re.compile(r"INSERT INTO delta\.`(?P<place>[^`]+)` (?P<rows>SELECT .*)")

if __name__ == "__main__":
    main(*sys.argv[1:3])
