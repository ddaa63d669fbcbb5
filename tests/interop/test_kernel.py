"""Delta Kernel, with its own client of Unity Catalog, at a managed table of lakeui's catalog."""

import json
import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User

from engine.catalog.unity import UnityCatalog
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.api.models import ApiToken
from lakeui.catalog.managed_tables import create_catalog, create_schema
from lakeui.catalog.roles import Role
from lakeui.managed.models import ManagedTable, RatifiedVersion
from lakeui.managed.publication import publish_commits
from tests.interop.fetch import OutOfReachError, fetch_kernel
from tests.lakeui.managed.staged import SCHEMA, open_location

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]
NAME = "lake.sales.orders"


@pytest.fixture
def token(transactional_db):
    user = User.objects.create_superuser("root")
    create_schema(create_catalog("lake", user), "sales", user)
    lifetime = timedelta(days=1)
    return ApiToken.objects.create(user=user, name="x", role=Role.ADMIN, expiry=lifetime)[1]


@pytest.fixture
def kernel(live_server, token, tmp_path):
    """Return a function that starts Kernel's program: its action, first number and repetitions."""
    try:
        jars = fetch_kernel()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    source = Path(__file__).with_name("KernelSide.java")
    path = f"{jars}/*:{tmp_path}"
    subprocess.run(["javac", "-cp", path, "-d", str(tmp_path), str(source)], check=True)  # noqa: S603, S607

    def start(what, first, count):
        row = ManagedTable.objects.get()
        given = (live_server.url, token, row.table_id, f"file://{row.location}", what, first, count)
        command = ["java", "-Xmx512m", "-cp", path, "KernelSide", *map(str, given)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603

    return start


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-4000:]
    return out.splitlines()


def insert(table, numbers):
    rows = pa.table({"id": pa.array(numbers, pa.int64())})
    run("INSERT INTO t TABLE s", table, sources={"s": rows})


def ids(table, version):
    return sorted(table.snapshot(version).to_arrow().column("id").to_pylist())


@pytest.fixture
def catalog(live_server, token):
    with closing(UnityCatalog(live_server.url, token)) as opened:
        yield opened


def read_versions(kernel, first, count):
    lines = finish(kernel("read", first, count))
    return {
        int(version): json.loads(rows) for version, rows in (one.split(" ", 1) for one in lines)
    }


def test_kernel_reads_each_version_and_writes_beside_this_engine(catalog, kernel):
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "10"}
    table = DeltaTable.create(NAME, SCHEMA, catalog=catalog, properties=properties)
    insert(table, range(10))
    run("DELETE FROM t WHERE id = 3", table)
    run("UPDATE t SET id = 50 WHERE id = 5", table)
    for number in range(12, 21):  # beyond a checkpoint
        insert(table, [number])

    writers = [kernel("write", 1000, 10), kernel("write", 2000, 10)]
    own = DeltaTable.open(NAME, catalog=catalog)
    for number in range(3000, 3030):
        insert(own, [number])
    acknowledged = [line for writer in writers for line in finish(writer)]
    landed = [line.split() for line in acknowledged if not line.startswith("refused")]
    assert len({version for _, version in landed}) == 20

    latest = table.version()
    row = ManagedTable.objects.get()
    versions = RatifiedVersion.objects.order_by("version").values_list("version", flat=True)
    assert [*versions] == [*range(1, latest + 1)]
    expected = {0, 1, 2, 4, 6, 7, 8, 9, 50, *range(12, 21)}
    expected |= {*range(1000, 1010), *range(2000, 2010), *range(3000, 3030)}
    assert ids(table, latest) == sorted(expected)
    read = read_versions(kernel, 0, latest + 1)
    assert read == {version: ids(table, version) for version in range(latest + 1)}
    publish_commits(row, open_location(row))
    assert read_versions(kernel, latest, 1) == {latest: ids(table, latest)}
