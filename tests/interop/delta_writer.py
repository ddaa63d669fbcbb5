"""delta-spark, driven statement by statement: whoever asks decides what happens in between.

Run by `tests.interop.test_foreign_histories` in delta-spark's own environment. It reads a statement a
line, as JSON, and answers each with one line.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.interop.delta_side import build_session


def main(jars: str, scratch: str, statements: Iterable[str], answers: Any) -> None:
    """Run statements until the input ends."""
    spark = build_session(Path(jars), Path(scratch))
    print(json.dumps({"spark": spark.version}), file=answers, flush=True)
    for line in statements:
        outcome: dict[str, str] = {}
        try:
            spark.sql(json.loads(line)).collect()
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker is told
            outcome["error"] = f"{type(error).__name__}: {str(error)[:600]}"
        print(json.dumps(outcome), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Java and Python chatter goes to the log, answers have a stream of their own
    main(sys.argv[1], sys.argv[2], sys.stdin, own)
