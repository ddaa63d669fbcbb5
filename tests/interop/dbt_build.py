"""dbt's jaffle shop on Delta tables, with eight threads, as docs/examples.md shows a project.

`tests/clients.py` copies this file into the project. No statement is run again after an error.
"""

from pathlib import Path

import pytest
import yaml
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

OUTPUT = {"type": "spark", "method": "session", "host": "localhost", "schema": "shop", "threads": 8}
PROFILES = {"jaffle_shop": {"target": "dev", "outputs": {"dev": OUTPUT}}}


@pytest.fixture(scope="module")
def run_dbt(tmp_path_factory):
    """Run a command of dbt on a copy of the project, and return how many nodes ended how."""
    place = tmp_path_factory.mktemp("project")
    for part in ("models", "seeds"):
        (place / part).symlink_to(Path.cwd() / part)
    project = yaml.safe_load(Path("dbt_project.yml").read_text("utf-8"))
    for kind in ("models", "seeds", "snapshots"):
        project.setdefault(kind, {})["+file_format"] = "delta"
    for name, content in (("dbt_project", project), ("profiles", PROFILES)):
        (place / f"{name}.yml").write_text(yaml.safe_dump(content), "utf-8")
    warehouse = SparkSession.builder.config("spark.sql.warehouse.dir", f"{place}/warehouse")
    warehouse.enableHiveSupport().getOrCreate()
    folders = ("--project-dir", str(place), "--profiles-dir", str(place))

    def run(*command: str):
        ended = dbtRunner().invoke([*command, *folders])
        assert ended.exception is None
        return ended

    return run


@pytest.mark.parametrize("options", [(), ("--full-refresh",), ("--threads", "16")])
def test_all_nodes_are_built(run_dbt, options):
    statuses = [str(node.status) for node in run_dbt("build", *options).result]
    assert len(statuses) == 28
    assert set(statuses) == {"success", "pass"}


def test_the_documentation_is_generated(run_dbt):
    assert run_dbt("docs", "generate").success
