"""A standalone Spark cluster on this machine, from the PySpark package: a master and two workers."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import pyspark

from tests.ports import port_for_later

_HOME = Path(pyspark.__file__).parent
_PACKAGE = "org.apache.spark.deploy"
_PATIENCE_S = 90


@contextmanager
def standalone_cluster(scratch: Path) -> Iterator[str]:
    """Yield the master's URL; end every process by its handle."""
    port, page = port_for_later(), port_for_later()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        ports = ["--port", str(port), "--webui-port", str(page)]
        master = [f"{_PACKAGE}.master.Master", *ports]
        stack.enter_context(_daemon(master, "elected leader", scratch))
        for number in (1, 2):
            place = scratch / f"worker {number}"
            place.mkdir(parents=True)
            memory = ["--cores", "1", "--memory", "900m", "--work-dir", str(place)]
            worker = [f"{_PACKAGE}.worker.Worker", *memory, "--webui-port", "0", url]
            stack.enter_context(_daemon(worker, "Successfully registered", scratch))
        yield url


@contextmanager
def _daemon(command: list[str], sign: str, scratch: Path) -> Iterator[None]:
    """Start a Spark process and wait until its log shows that it works."""
    name, *rest = command
    environment = {
        **os.environ,
        "SPARK_HOME": str(_HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_PUBLIC_DNS": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    process = subprocess.Popen(  # noqa: S603 - Spark's own script
        [str(_HOME / "bin" / "spark-class"), name, "--host", "127.0.0.1", *rest],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen, lines = Event(), []

    def read() -> None:
        for line in process.stderr or ():
            lines.append(line)
            if sign in line:
                seen.set()

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        assert seen.wait(_PATIENCE_S), "".join(lines[-20:])
        yield
    finally:
        process.terminate()
        process.wait(30)
        reader.join(10)
        if process.stderr is not None:
            process.stderr.close()
