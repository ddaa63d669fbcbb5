"""Public clients of delta-spark and PySpark, by their own tests, on this engine.

`python -m tests.clients [NAME …] [--write]` installs each client from the package index into an
environment of its own under `var/clients`, runs its tests by `python -m engine.delta`, and prints
how many pass, and each failure with its reason. `--write` writes this into docs/interoperability.md,
with the latest outcome of the clients that are not named.

Some clients publish no tests. They are run only if CLIENT_CHECKOUTS names a directory with checkouts
of their repositories, under the repositories' names. The runs called "lowest" and "highest" are this repository's own tests, at both
ends of the range of each dependency.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "var" / "clients"
PAGE = ROOT / "docs" / "interoperability.md"
TITLE = "## Public clients"
TIMEOUT_S = 5400
SPARK_DEFAULTS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:clients;create=true",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of sessions that set no others: a suite of small tables needs neither more tasks nor a page."""
_API_TESTS = tuple(
    f"tests/engine/{name}"
    for name in (
        "delta/test_delta_package.py",
        "delta/test_enable.py",
        "delta/test_enable_frames.py",
        "delta/test_latest_versions.py",
        "delta/test_tables.py",
        "expressions/test_parse.py",
        "expressions/test_round_trip.py",
        "commands/test_sql.py",
    )
)
_SIZES = "expects the sizes of the Parquet files that Spark writes; this engine's are smaller"


class OutOfReachError(Exception):
    """A client cannot be installed or tested here; the message is the reason, in one line."""


@dataclass(frozen=True)
class Client:
    """One client: the source of its tests, the tests to run, and the known reasons for failures.

    Attributes:
        packages: what pip installs for it, beside this repository's dependencies.
        sdist: the requirement whose source distribution has the tests.
        repository: the repository with the tests, if no distribution has them.
        directory: the working directory, inside the source distribution or checkout.
        settings: environment variables of the run.
        spark: settings of Spark beside those of all clients.
        additions: files of this repository by their path in that directory.
        failures: the reasons of known failures, by the beginnings of their tests' names.
    """

    name: str
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    sdist: str = ""
    repository: str = ""
    directory: str = "."
    options: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    additions: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Return True if the tests are this repository's own."""
        return not self.sdist and not self.repository


@dataclass(frozen=True)
class ClientRun:
    """The result of a client's tests: their names by outcome."""

    client: Client
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    hindrance: str = ""

    def reason(self, name: str) -> str:
        """Return why a test fails."""
        known = self.client.failures.items()
        return next((reason for start, reason in known if name.startswith(start)), "**not known**")

    @property
    def is_explained(self) -> bool:
        """Return True if every failure has a reason."""
        return not any(self.reason(name).startswith("**") for name in self.failed)


CLIENTS = (
    Client(
        "mack",
        ("mack==0.5.0", "chispa"),
        ("tests",),
        repository="https://github.com/mrpowers-io/mack",
        failures={"test_delta_file_sizes": _SIZES, "test_show_delta_file_sizes": _SIZES},
    ),
    Client(
        "koheesio",
        ("koheesio==0.11.1", "pytest-mock", "freezegun"),
        (
            "tests/spark/writers/delta",
            "tests/spark/readers/test_delta_reader.py",
            "tests/spark/readers/test_metastore_reader.py",
            "tests/spark/test_delta.py",
            "tests/spark/tasks",
            "tests/spark/writers/test_stream.py",
        ),
        sdist="koheesio==0.11.1",
        failures={
            "test_delta_stream": "waits 20 seconds for a stream, whose Python workers start later on "
            "a busy machine; not seen to pass"
        },
    ),
    Client(
        "kedro-datasets",
        (
            "kedro-datasets[spark]==9.6.0",
            "kedro",
            "pytest-mock",
            "filelock",
            "matplotlib",
            "hdfs",
            "s3fs",
        ),
        (
            "tests/spark/test_deltatable_dataset.py",
            "tests/spark/test_spark_dataset.py",
        ),
        repository="https://github.com/kedro-org/kedro-plugins",
        failures={
            "TestSparkDataset.test_load_options_schema_path_with_credentials": "reads a schema by "
            "s3fs from moto, whose responses the installed aiobotocore cannot read: no Spark"
        },
        directory="kedro-datasets",
    ),
    Client(
        "dbt-spark",
        ("dbt-spark==1.11.0", "dbt-core<1.11", "dbt-tests-adapter==1.20.0"),
        ("tests/functional/adapter",),
        sdist="dbt-spark==1.11.0",
        options=(
            *("--ignore", "tests/functional/adapter/utils"),  # macros, without tables of Delta
            *("--profile", "spark_session", "-W", "ignore"),
        ),
        settings={"DBT_DATABRICKS_HOST_NAME": "unused"},
        spark={
            "spark.sql.sources.default": "delta",
            "spark.sql.session.timeZone": "UTC",
        },
        additions={
            "tests/functional/adapter/conftest.py": "tests/interop/dbt_side.py",
            "tests/functional/adapter/test_on_delta.py": "tests/interop/dbt_cases.py",
        },
    ),
    Client(
        "jaffle-shop-classic",
        ("dbt-core<1.11", "dbt-spark==1.11.0"),
        ("test_build.py",),
        repository="https://github.com/dbt-labs/jaffle-shop-classic",
        additions={"test_build.py": "tests/interop/dbt_build.py"},
    ),
    Client(
        "spark-expectations",
        ("spark-expectations==2.10.1", "pytest-mock"),
        ("tests/integration/sinks/utils", "tests/integration/utils", "tests/unit/utils"),
        sdist="spark-expectations==2.10.1",
        settings={"UNIT_TESTING_ENV": "spark_expectations_unit_testing_on_github_actions"},
    ),
    Client(
        "feast",
        ("feast[spark]==0.67.0", "pytest-mock"),
        (
            *(
                f"tests/component/spark/test_{name}.py"
                for name in ("nodes", "spark", "spark_utils")
            ),
            "tests/component/spark/test_spark_table_format_integration.py",
            "tests/component/spark/test_spark_transformation.py",
            "tests/component/spark/test_on_delta.py",
        ),
        repository="https://github.com/feast-dev/feast",
        additions={"tests/component/spark/test_on_delta.py": "tests/interop/feast_cases.py"},
        failures={
            "test_to_arrow_": "its mock of PyArrow expects other arguments than Feast passes; no "
            "table of Delta"
        },
        directory="sdk/python",
    ),
    Client(
        "great-expectations",
        ("great-expectations==1.24.1", "pytest-mock", "freezegun"),
        (
            "tests/execution_engine/test_sparkdf_execution_engine.py",
            "tests/execution_engine/partition_and_sample/test_sparkdf_execution_engine_partitioning.py",
            "tests/execution_engine/partition_and_sample/test_sparkdf_execution_engine_sampling.py",
            "tests/datasource/fluent/test_spark_datasource.py",
            "tests/integration/spark/test_spark_config.py",
        ),
        sdist="great-expectations==1.24.1",
        options=("--spark",),
    ),
    Client(
        "tempo",
        (
            "dbl-tempo==0.1.30",
            "delta-spark",
            "ipython",
            "scipy",
            "parameterized",
            "jsonref",
            "chispa",
        ),
        ("tests/io_tests.py",),
        repository="https://github.com/databrickslabs/tempo",
        directory="python",
    ),
    Client(
        "ibis",
        (
            "ibis-framework==12.0.0",  # its extra pyspark would install Spark 4.0
            *("pyarrow-hotfix", "rich", "pytest-mock", "filelock", "pytest-snapshot"),
        ),
        ("ibis/backends/pyspark/tests",),
        repository="https://github.com/ibis-project/ibis",
    ),
    Client(
        "dlt-meta",
        ("databricks-sdk", "pyyaml"),
        (
            "tests/test_dataflow_spec.py",
            "tests/test_onboard_dataflowspec.py",
            "tests/test_metastore_ops.py",
            "tests/test_pipeline_readers.py",
            "tests/test_pipeline_writers.py",
            "tests/test_dataflow_pipeline.py",
        ),
        repository="https://github.com/databrickslabs/dlt-meta",
    ),
    Client(
        "databricks-labs-dqx",
        ("databricks-labs-dqx==0.17.0",),
        ("test_on_delta.py",),  # its own need a Databricks workspace, or start no Spark
        sdist="databricks-labs-dqx==0.17.0",
        spark={"spark.sql.sources.default": "delta"},
        additions={"test_on_delta.py": "tests/interop/dqx_cases.py"},
    ),
    Client(
        "lowest",
        (
            "pyspark==4.2.0",
            "pandas==2.2.0",
            "pyarrow==21.0.0",
            "numpy==1.26.4",
            "sqlglot==22.0.1",
            "msgspec==0.19.0",
            "pyroaring==1.0.0",
            "obstore==0.8.0",
            "pyiceberg==0.11.0",
        ),
        _API_TESTS,
    ),
    Client(
        "highest",
        ("pyspark<5", "pandas<3", "pyarrow", "numpy", "sqlglot<31", "pyiceberg<0.13"),
        _API_TESTS,
    ),
    *(
        Client(
            f"sqlglot-{version.partition('.')[0]}",
            (f"sqlglot=={version}",),
            ("tests/engine/expressions", "tests/engine/commands"),
            options=("-m", "not spark and not stress and not interop"),
        )
        for version in ("23.17.0", "24.1.2")
    ),
)


OTHERS = {
    "delta-spark": "its package has no tests; [pyspark.md](pyspark.md#delta-sparks-own-tests) has the counts of its repository's",
    "delta-hydro": "its package has no tests",
}
"""Clients that are not run, and why."""


def run_client(client: Client, home: Path = HOME) -> ClientRun:
    """Install a client and run its tests; if that is impossible, the result names the hindrance."""
    try:
        python = install_client(client, home)
        root = find_tests(client, home)
    except OutOfReachError as reason:
        return ClientRun(client, hindrance=str(reason))
    for place, addition in client.additions.items():
        shutil.copy(ROOT / addition, root / place)
    outcome = home / f"{client.name}.xml"
    outcome.unlink(missing_ok=True)
    runner = [str(python), *([] if client.is_own else ["-m", "engine.delta"]), "-m", "pytest"]
    options = ["-q", "-p", "no:cacheprovider", "--timeout", "600", f"--junitxml={outcome}"]
    if not client.is_own:
        options += ["-o", "addopts=", "-o", "filterwarnings="]
    options += client.options
    options.append(f"--session-timeout={TIMEOUT_S}")  # ends between two tests, and reports
    with (home / f"{client.name}.txt").open("w") as output, TemporaryDirectory() as scratch:
        write_spark_defaults(client, Path(scratch))
        subprocess.run(  # noqa: S603 - an interpreter of ours, tests that the table names
            [*runner, *options, *client.tests],
            cwd=root,
            env={
                **os.environ,
                **client.settings,
                "PYTHONPATH": os.pathsep.join(map(str, (root / "src", root, ROOT))),
                "SPARK_CONF_DIR": scratch,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return load_run(client, home)


def load_run(client: Client, home: Path = HOME) -> ClientRun:
    """Return the outcome of the client's latest run."""
    outcome = home / f"{client.name}.xml"
    if not outcome.is_file():
        return ClientRun(client, hindrance="no run to its end is recorded")
    return read_outcome(client, outcome.read_text("utf-8"))


def write_spark_defaults(client: Client, scratch: Path) -> None:
    """Write the settings of the client's sessions; their warehouse and metastore begin empty."""
    defaults = SPARK_DEFAULTS | client.spark | {"spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    lines = (f"{name} {value}\n" for name, value in defaults.items())
    (scratch / "spark-defaults.conf").write_text("".join(lines), "utf-8")


def read_outcome(client: Client, report: str) -> ClientRun:
    """Return the tests of a JUnit report by outcome."""
    names: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest's own
        found = {part.tag for part in case} & {"failure", "error", "skipped"}
        outcome = "passed" if not found else "skipped" if found == {"skipped"} else "failed"
        group = case.get("classname", "").rpartition(".")[2]
        name = case.get("name", "")
        names[outcome].append(f"{group}.{name}" if group.startswith("Test") else name)
    return ClientRun(client, **{outcome: tuple(found) for outcome, found in names.items()})


def install_client(client: Client, home: Path = HOME) -> Path:
    """Return the Python of an environment with the client, over this repository's own packages.

    Raises:
        OutOfReachError: the package index cannot be reached, or has no such version.
    """
    place = home / "environments" / client.name
    python, done = place / "bin" / "python", place / ".installed"
    wanted = "\n".join(client.packages)
    if done.is_file() and done.read_text("utf-8") == wanted:
        return python
    _run([sys.executable, "-m", "venv", "--clear", str(place)], "no environment can be made")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    below = place / "lib" / version / "site-packages" / "repository.pth"
    below.write_text(sysconfig.get_path("purelib"), "utf-8")
    install = [str(python), "-m", "pip", "install", "-q", *client.packages]
    _run(install, f"pip cannot install {' '.join(client.packages)}")
    done.write_text(wanted, "utf-8")
    return python


def find_tests(client: Client, home: Path = HOME) -> Path:
    """Return the directory in which the client's tests run.

    Raises:
        OutOfReachError: the tests are not published, and no checkout exists.
    """
    if client.is_own:
        return ROOT
    if not client.sdist:
        checkouts = Path(os.environ.get("CLIENT_CHECKOUTS", ""))
        root = checkouts / Path(client.repository).name / client.directory
        if not root.is_dir():
            msg = (
                f"its packages have no tests; CLIENT_CHECKOUTS must name a directory with a checkout "
                f"of {client.repository}"
            )
            raise OutOfReachError(msg)
        return root.resolve()
    place = home / "sources" / client.sdist
    if not place.is_dir():
        package = client.sdist.partition("==")[0]
        fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", package]
        _run([*fetch, "-d", str(home / "sources"), client.sdist], f"pip has no {client.sdist}")
        name = client.sdist.replace("==", "-")
        for spelled in (name, name.replace("-", "_", name.count("-") - 1)):
            archive = home / "sources" / f"{spelled}.tar.gz"
            if archive.is_file():
                with tarfile.open(archive) as packed:
                    packed.extractall(place, filter="data")
    return next(place.iterdir()) / client.directory


def _run(command: list[str], failure: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise OutOfReachError(failure)


def describe(runs: list[ClientRun]) -> str:
    """Render the results as a section of the page."""
    done = [run for run in runs if not run.hindrance]
    lines = [
        TITLE,
        "",
        "`make clients` runs the tests of public clients on this engine by `python -m engine.delta`, "
        "without a change to their code. *lowest*, *highest* and *sqlglot* are tests of this repository "
        "with the ends of the range of each dependency, and with versions of sqlglot that treat names "
        "differently. The tests of a repository need a checkout of it in the "
        "directory that `CLIENT_CHECKOUTS` names.",
        "",
        "| client | pass | of | skipped | tests | from |",
        "|---|---|---|---|---|---|",
    ]
    for run in done:
        client = run.client
        counts = f"{len(run.passed)} | {len(run.passed) + len(run.failed)} | {len(run.skipped)}"
        package = client.packages[0]
        name = package if package.startswith(client.name) else client.name
        tests = ", ".join(
            client.tests
        )  # without backticks, because backticks mark modules of this repository
        source = client.sdist or client.repository or "this repository"
        lines.append(f"| {name} | {counts} | {tests} | {source} |")
    lines += ["", "These fail:", "", "| client | tests | reason |", "|---|---|---|"]
    for run in done:
        for reason in dict.fromkeys(map(run.reason, run.failed)):
            names = [f"`{name}`" for name in run.failed if run.reason(name) == reason]
            lines.append(f"| {run.client.name} | {', '.join(names)} | {reason} |")
    hindered = {run.client.name: run.hindrance for run in runs if run.hindrance} | OTHERS
    lines += ["", "Not run:", "", *(f"- {name}: {why}." for name, why in hindered.items())]
    return "\n".join(lines).rstrip() + "\n"


def write_section(text: str, page: Path = PAGE) -> None:
    """Write a section of the page: replace the section with the same title, or append it."""
    title = text.partition("\n")[0]
    before, _, rest = page.read_text("utf-8").partition(f"{title}\n")
    _, following, after = rest.partition("\n## ")
    page.write_text(f"{before.rstrip()}\n\n{text}{following}{after}", "utf-8")


def main() -> int:
    """Run the named clients, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    unknown = set(asked.names) - {client.name for client in CLIENTS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    HOME.mkdir(parents=True, exist_ok=True)
    runs = []
    for client in CLIENTS:
        if asked.names and client.name not in asked.names:
            runs.append(load_run(client))
            continue
        runs.append(run_client(client))
        sys.stdout.write(f"{client.name}: {_summarize(runs[-1])}\n")
        sys.stdout.flush()
    text = describe(runs)
    if asked.write:
        write_section(text)
    sys.stdout.write(f"\n{text}")
    return int(not all(run.is_explained for run in runs))


def _summarize(run: ClientRun) -> str:
    if run.hindrance:
        return f"not run: {run.hindrance}"
    return f"{len(run.passed)} of {len(run.passed) + len(run.failed)} pass"


if __name__ == "__main__":
    sys.exit(main())
