"""The SparkSession of a worker, configured so that text from people cannot reach the machine.

`spark.sql.restrictedMode.enabled` and the empty reflection allow-list are a second line of defense:
text from people is never passed to Spark in the first place (see `engine.spark.columns`).

`engine.delta.enable` routes the statements of a session, except the engine's own inside
`bypass_routing`.
"""

import atexit
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Thread

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import EngineError, RequestError

MINIMUM_JAVA = 17
_REMOTE_PARALLELISM = 8
_with_engine: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()
_ENGINE = Path(__file__).resolve().parents[1]

_MEANING: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
_LOCAL_FILES = "spark.hadoop.fs.file.impl"
SAFE_CONFIGURATION: Mapping[str, str] = {
    # restrictions on text
    "spark.sql.restrictedMode.enabled": "true",
    "spark.sql.reflect.allowList": "",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.legacy.allowUntypedScalaUDF": "false",
    # meaning of values
    **_MEANING,
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",  # true reads such files as nulls
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # no checksum files: they clutter the data and fail on a colon in a name
    _LOCAL_FILES: "org.apache.hadoop.fs.RawLocalFileSystem",
    # no residue beside the data
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # many jobs, one session, nobody listening
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # end an executor whose cancelled task ignores interrupts: it blocks the core
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "120s",
    # otherwise every expression is sent to the JVM twice, once with its line of code
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Arrow between the JVM and Python
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.python.worker.reuse": "true",
    # small tables on small machines: no listing job for a list of files, few shuffle partitions
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "4096",
    "spark.sql.adaptive.enabled": "true",
    # as few tasks after a shuffle as its bytes need: each writing task makes a file
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128m",
}
_CORES_OF_A_DRIVER = "4"
_DRIVER_PLACE = {
    "spark.driver.host": "SPARK_DRIVER_HOST",
    "spark.driver.bindAddress": "SPARK_DRIVER_BIND_ADDRESS",
    "spark.driver.port": "SPARK_DRIVER_PORT",
    "spark.blockManager.port": "SPARK_BLOCK_MANAGER_PORT",
    "spark.kubernetes.driver.pod.name": "SPARK_DRIVER_POD_NAME",
}
_NO_CORE: Mapping[str, str] = {
    "yarn": "The ResourceManager's page shows the free capacity of the queue. Reduce the "
    "executors' needs (spark.executor.memory, spark.executor.instances), or enlarge the "
    "queue.",
    "k8s": "The events of the executors' pods show what they wait for (kubectl describe pod).",
}
_NO_CORE_ELSEWHERE = (
    "The cluster's page shows which applications use the cores and the memory. Start more "
    "Spark workers there, or reduce the needs of the applications (SPARK_CORES_MAX of each "
    "worker here, spark.executor.memory)."
)
ENGINE_TERMS = (
    "In the session, set spark.sql.session.timeZone to UTC and spark.sql.ansi.enabled to true."
)
"""How a session gets the time zone and the ANSI mode in which the engine evaluates expressions."""
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})

_is_plain: ContextVar[bool] = ContextVar("lake_plain_sql", default=False)


class SparkUnavailableError(EngineError, code="LAKE_SPARK_UNAVAILABLE", sqlstate="58000"):
    """Spark cannot start on this machine."""


class PySparkChangedError(ImportError):
    """PySpark no longer has an attribute as a hook of this engine needs it."""


def check_hooks(owner: type, **attributes: str | None) -> None:
    """Check attributes of a class of PySpark before hooks replace them or classes derive from it.

    Args:
        owner: the class.
        attributes: by name, the parameters without `self`, separated by spaces; None stands for a
            property.

    Raises:
        PySparkChangedError: an attribute is missing, or has other parameters.
    """
    for name, parameters in attributes.items():
        attribute = inspect.getattr_static(owner, name, None)
        called = inspect.isfunction(attribute)
        actual = " ".join([*inspect.signature(attribute).parameters][1:]) if called else None
        if attribute is None or actual != parameters:
            expected = "" if parameters is None else f"({', '.join(parameters.split())})"
            msg = (
                f"PySpark {pyspark.__version__} has no {owner.__name__}.{name}{expected}, which "
                "engine.delta replaces or calls: install a version of PySpark that this release "
                "supports, or a newer release of this package."
            )
            raise PySparkChangedError(msg)


def build_session(
    app_name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
) -> SparkSession:
    """Return the process's SparkSession, started on first use.

    Args:
        app_name: shown by cluster managers.
        master: Spark master URL; `SPARK_MASTER` or local cores when None.
        settings: settings over the safe ones (tests, clusters).
        jars: for the class path beside those of `SPARK_JARS`: connectors of object stores.

    Raises:
        SparkUnavailableError: no Java 17 or later, or no configuration of Hadoop for YARN.
    """
    check_java()
    chosen = master or os.environ.get("SPARK_MASTER") or f"local[{os.cpu_count() or 1}]"
    _check_hadoop(chosen)
    if _is_local(chosen):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(app_name).master(chosen)
    configuration = start_configuration(chosen, jars) | dict(settings or {})
    for key, value in configuration.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if _LOCAL_FILES not in configuration:
        _change_local_files(session, SAFE_CONFIGURATION[_LOCAL_FILES])
    # a cluster's warnings matter: no free core, a lost executor
    session.sparkContext.setLogLevel("ERROR" if _is_local(chosen) else "WARN")
    if not _is_local(chosen):
        session.sparkContext.addPyFile(_pack_engine())
    return session


def check_finds_columns_by_id(session: SparkSession) -> None:
    """Refuse a session of Spark Connect that ignores the field ids of Parquet files.

    Only the session's own setting changes it, no option of a read.

    Raises:
        RequestError: it would read columns mapped by id by their names.
    """
    if session.conf.get("spark.sql.parquet.fieldId.read.enabled", "false") != "true":
        msg = "This Spark Connect session finds columns by name, but the table maps them by id."
        remedy = "In the session, set spark.sql.parquet.fieldId.read.enabled to true."
        raise RequestError(msg, remedy, field="session")


def engine_session(session: SparkSession | None) -> SparkSession | None:
    """Return the session, or a sibling session that evaluates expressions as the engine does.

    Files are skipped, and conflicts resolved at row level, without Spark: by the same rules, in
    UTC. In another time zone Spark would choose other rows; without ANSI mode it has nulls for
    errors.

    Raises:
        RequestError: it is a session of Spark Connect, which cannot have a sibling.
    """
    if session is None or has_engine_terms(session):
        return session
    if is_remote(session):
        msg = "The time zone of this Spark Connect session is not UTC, or ANSI mode is off."
        raise RequestError(msg, ENGINE_TERMS, field="session")
    beside = session.newSession()
    for name, value in _MEANING.items():
        beside.conf.set(name, value)
    return beside


def has_engine_terms(session: SparkSession, *, any_zone: bool = False) -> bool:
    """Whether the session evaluates expressions as the engine does; `any_zone` ignores its zone."""
    try:
        ansi = session.conf.get("spark.sql.ansi.enabled") or ""
    except (PySparkException, Py4JError, OSError):
        return True  # it is gone: the next call reports that
    return ansi.lower() == "true" and (any_zone or is_in_utc(session))


def is_in_utc(session: SparkSession) -> bool:
    """Whether times without a zone are UTC to a session."""
    try:
        return (session.conf.get("spark.sql.session.timeZone") or "") in _UTC
    except (PySparkException, Py4JError, OSError):
        return True  # as above


def is_remote(session: SparkSession) -> bool:
    """Whether it is a session of Spark Connect: it has no JVM of its own."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_is_spark(session: SparkSession) -> None:
    """Check that a Spark Connect server is Apache Spark, which reports the position of each row.

    Raises:
        RequestError: it is another engine, such as Sail.
    """
    if is_remote(session) and session.conf.get("spark.master", None) is None:
        msg = (
            "This Spark Connect server is not Apache Spark: it does not report the positions "
            "of rows."
        )
        remedy = "Run this with an Apache Spark server. DeltaTable.toDF() can read the table here."
        raise RequestError(msg, remedy, field="session")


def default_parallelism(session: SparkSession) -> int:
    """Return how many tasks run at once; a Spark Connect server does not report it by itself."""
    if not is_remote(session):
        return session.sparkContext.defaultParallelism
    parallelism = session.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    return int(parallelism) if parallelism else _REMOTE_PARALLELISM


def send_engine(session: SparkSession) -> None:
    """Make the engine importable in the Python workers of a session.

    Workers of a local session run this Python, unless PYSPARK_PYTHON names another. A Spark Connect
    server is sent the engine; a server that takes no files must have it installed.
    """
    if not is_remote(session):
        context = session.sparkContext
        if _is_local(context.master or "") and not os.environ.get("PYSPARK_PYTHON"):
            context.pythonExec = sys.executable
    elif session not in _with_engine:
        with suppress(UnsupportedOperationException):
            session.addArtifacts(_pack_engine(), pyfile=True)
        _with_engine.add(session)


def check_java() -> None:
    """Check that Java is installed and recent enough.

    Raises:
        SparkUnavailableError: with the remedy in one line.
    """
    remedy = (
        f"Install Java {MINIMUM_JAVA} or later (apt install openjdk-17-jre-headless) or set "
        "JAVA_HOME."
    )
    java = java_on_path()
    if java is None:
        msg = "Spark needs Java, but no Java was found."
        raise SparkUnavailableError(msg, remedy)
    version = _java_version(java)
    if version < MINIMUM_JAVA:
        msg = f"Spark needs Java {MINIMUM_JAVA}, but {java} is version {version}."
        raise SparkUnavailableError(msg, remedy)


def start_configuration(master: str, jars: Sequence[Path] = ()) -> dict[str, str]:
    """Return the configuration at startup. On YARN the safe local file system is set afterwards.

    YARN's client asks the local file system for its scheme as it starts, and the safe one has none.
    """
    configuration = {**SAFE_CONFIGURATION, **_place_settings(master, jars)}
    if master.startswith("yarn"):
        del configuration[_LOCAL_FILES]
    return configuration


def _change_local_files(session: SparkSession, implementation: str) -> None:
    """Read local files by another file system from here on, not by one opened before."""
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(_LOCAL_FILES.removeprefix("spark.hadoop."), implementation)
    hadoop.set("fs.file.impl.disable.cache", "true")


def _check_hadoop(master: str) -> None:
    """Check that YARN's clients can find their cluster.

    Raises:
        SparkUnavailableError: names the variable.
    """
    folders = [os.environ.get("HADOOP_CONF_DIR"), os.environ.get("YARN_CONF_DIR")]
    if master.startswith("yarn") and not any(folders):
        msg = (
            "Spark on YARN needs Hadoop's configuration to find its cluster, but "
            "HADOOP_CONF_DIR is not set."
        )
        remedy = "Set HADOOP_CONF_DIR to the directory of yarn-site.xml and core-site.xml."
        raise SparkUnavailableError(msg, remedy)


def java_on_path() -> str | None:
    """Return the Java that Spark starts, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


def _java_version(java: str) -> int:
    properties = subprocess.run(  # noqa: S603 - the java of this machine, no arguments from outside
        [java, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stderr
    for line in properties.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "java.specification.version":
            number = value.strip().removeprefix("1.")
            return int(number) if number.isdigit() else 0
    return 0


def _place_settings(master: str, jars: Sequence[Path]) -> dict[str, str]:
    """Return settings that depend on the place: scratch space, import path, cores, extra jars."""
    scratch = Path(tempfile.gettempdir()) / f"lake-spark-{os.getpid()}"
    settings = {"spark.sql.warehouse.dir": (scratch / "warehouse").as_uri()}
    if _is_local(master):
        settings |= {
            "spark.executorEnv.PYTHONPATH": str(_ENGINE.parent),
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        if sys.platform == "linux":  # needs /proc to count threads
            settings["spark.python.daemon.module"] = "engine.spark.python_daemon"
    else:
        settings |= cluster_settings(master)
    named = [jar for jar in os.environ.get("SPARK_JARS", "").split(",") if jar.strip()]
    if jars and _is_local(master):  # nothing is copied, as jars of `spark.jars` would be
        settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    elif jars:
        named += [jar.as_uri() for jar in jars]
    if named:
        settings["spark.jars"] = ",".join(named)
    return settings


def cluster_settings(master: str) -> dict[str, str]:
    """Return the driver's address for executors, and its number of cores in a standalone cluster.

    A standalone cluster gives the first application all cores unless it asks for fewer: the driver
    of a second worker would wait silently.
    """
    settings = {
        setting: os.environ[variable]
        for setting, variable in _DRIVER_PLACE.items()
        if os.environ.get(variable)
    }
    cores = os.environ.get("SPARK_CORES_MAX", _CORES_OF_A_DRIVER)
    if master.startswith("spark://") and cores != "0":
        settings["spark.cores.max"] = cores
    if master.startswith("k8s://") and "spark.driver.host" in settings:
        # otherwise executors get the bind address, which may be a wildcard
        settings["spark.kubernetes.executor.useDriverPodIP"] = "false"
    return settings


def run_first_task(session: SparkSession, seconds: float) -> None:
    """Run a first task in Spark, so that no job pays for the warm-up or waits silently for cores.

    Raises:
        SparkUnavailableError: no core was free for so long, or Spark failed.
    """
    failures: list[Exception] = []

    def count() -> None:
        try:
            session.range(1).count()
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            failures.append(error)

    task = Thread(target=count, daemon=True)
    task.start()
    task.join(seconds)
    master = session.sparkContext.master or ""
    if task.is_alive():
        msg = f"Spark at {master} had no core for a first task within {seconds:g} s."
        remedy = _NO_CORE.get(master.partition(":")[0], _NO_CORE_ELSEWHERE)
        remedy += " Executors must also reach this driver (SPARK_DRIVER_HOST)."
        raise SparkUnavailableError(msg, remedy)
    for failure in failures:
        msg = f"Spark at {master} failed in its first task: {failure}"
        raise SparkUnavailableError(msg[:1000], "See Spark's log.") from failure


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _pack_engine() -> str:
    """Zip the engine for the executors of a cluster, so that they run the driver's code."""
    place = Path(tempfile.mkdtemp(prefix="lake-engine-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    packed = place / "engine.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(_ENGINE.rglob("*.py")):
            archive.write(module, module.relative_to(_ENGINE.parent))
    return str(packed)


@contextmanager
def bypass_routing() -> Iterator[None]:
    """Send this thread's statements directly to Spark, in any session."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def is_plain() -> bool:
    """Whether this thread is inside `bypass_routing`."""
    return _is_plain.get()


def plain_sql(session: SparkSession, statement: str) -> DataFrame:
    """Run a statement in Spark itself."""
    with bypass_routing():
        return session.sql(statement)
