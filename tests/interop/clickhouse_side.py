"""ClickHouse's side, embedded: runs in an environment of its own, at the root of the file system."""

import json
import sys

import chdb

from tests.interop.plain_rows import lines_of


def main() -> None:
    """Answer for every place on standard input, one JSON text each."""
    for line in sys.stdin:
        place = json.loads(line).replace("'", "\\'")
        try:
            table = chdb.query(f"SELECT * FROM deltaLakeLocal('{place}')", "ArrowTable")  # noqa: S608
            answer = {"ok": lines_of(table.to_pylist())}
        except Exception as error:  # noqa: BLE001 - whatever ClickHouse says goes into the report
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
