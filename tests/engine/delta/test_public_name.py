"""`lakeui.delta` is `engine.delta`, and reports another `engine` that hides it."""

import os
import subprocess
import sys

from tests.services import ROOT

PROGRAM = """
from lakeui.delta import DeltaTable, enable
from lakeui.delta.exceptions import ConcurrentAppendException
import lakeui.delta.tables, engine.delta.exceptions, engine.delta.tables
assert lakeui.delta.tables.DeltaTable is DeltaTable is engine.delta.tables.DeltaTable
assert ConcurrentAppendException is engine.delta.exceptions.ConcurrentAppendException
"""


def test_the_public_name_gives_the_same_classes_and_names_a_module_that_hides_the_engine(tmp_path):
    def run(program, directory):
        return subprocess.run(  # noqa: S603 - this interpreter, programs of ours
            [sys.executable, "-c", program],
            cwd=directory,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{directory}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert run(PROGRAM, ROOT).stderr == ""
    (tmp_path / "engine.py").write_text("x = 1\n")
    hidden = run("import lakeui.delta", tmp_path).stderr
    assert f"{tmp_path / 'engine.py'} is imported as `engine` and hides" in hidden
