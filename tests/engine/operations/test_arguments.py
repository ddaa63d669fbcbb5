"""Arguments of the wrong kind: refused by name, before anything is read."""

import pytest

from engine.errors import RequestError
from engine.operations.run import run
from engine.operations.run_options import NeedsSparkError
from engine.storage.local import LocalStore
from engine.table import DeltaTable


def test_arguments_of_other_types_are_refused(tmp_path):
    table, create = DeltaTable(LocalStore(str(tmp_path / "t"))), "CREATE TABLE t (id BIGINT)"
    for command, given, retries, field in (
        (table, create, 0, "command"),
        (create.encode(), table, 0, "command"),
        (create, str(tmp_path), 0, "table"),
        (create, table, "3", "retries"),
    ):
        with pytest.raises(RequestError) as refused:
            run(command, given, retries=retries)
        assert refused.value.field == field
    assert not (tmp_path / "t").exists()


def test_a_number_beyond_its_type_is_named_so(tmp_path):
    table = DeltaTable(LocalStore(str(tmp_path / "t")))
    run("CREATE TABLE t (id BIGINT)", table)
    with pytest.raises(NeedsSparkError, match="outside the range of its type"):
        run("INSERT INTO t VALUES (99999999999999999999)", table)
