"""Sail's side: runs in an environment of its own. Places of tables come in, their rows go out."""

import json
import sys

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from tests.interop.plain_rows import lines_of


def main() -> None:
    """Answer for every place on standard input, one JSON text each."""
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    for line in sys.stdin:
        try:
            rows = spark.read.format("delta").load(json.loads(line)).toArrow().to_pylist()
            answer = {"ok": lines_of(rows)}
        except Exception as error:  # noqa: BLE001 - whatever Sail says goes into the report
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()
