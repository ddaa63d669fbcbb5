"""OPTIMIZE what a dbt run wrote, as jobs: `dbt build; python dbt_optimize.py target/run_results.json`.

For warehouses whose own session does not OPTIMIZE. Names of tables are as they are registered:
`schema.name`. Tables that are not registered are left out.
"""

import json
import sys
from pathlib import Path

from lakeui.client import ApiError, Client, JobFailedError


def written(results: Path) -> list[str]:
    """Return the tables of successful models."""
    told = json.loads(results.read_text("utf-8"))
    names = [
        result["relation_name"].replace("`", "").replace('"', "")
        for result in told["results"]
        if result["status"] == "success" and result.get("relation_name")
    ]
    return [".".join(name.split(".")[-2:]) for name in names]


def main(results: str) -> int:
    key, failed = json.loads(Path(results).read_text("utf-8"))["metadata"]["invocation_id"], 0
    with Client() as client:
        jobs = []
        for name in written(Path(results)):
            try:
                jobs.append(client.table(name).optimize(idempotency_key=f"dbt/{key}/{name}"))
            except ApiError as error:
                if error.status != 404:
                    raise
                sys.stderr.write(f"{name} is not registered\n")
        for job in jobs:
            try:
                record = job.wait()
                sys.stdout.write(f"{record.table}: {record.state}\n")
            except JobFailedError as error:
                failed += 1
                sys.stderr.write(f"{error.job.error_code}: {error}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
