"""Run a program that was written for delta-spark: `python -m engine.delta program.py …`."""

import os
import runpy
import sys
from pathlib import Path

from engine.delta.delta_package import DIRECTORY, provide_delta

USAGE = """\
usage: python -m engine.delta program.py [argument …]
       python -m engine.delta -m module [argument …]
       python -m engine.delta --path

Run a program, or a module, with this engine in place of delta-spark: `import delta` gives its API,
and sessions are enabled. --path prints the directory that does the same as an entry of PYTHONPATH,
for programs that other commands start, such as spark-submit.
"""


def main(arguments: list[str]) -> None:
    """Run the module or file named by the arguments, as Python would."""
    if arguments == ["--path"]:
        sys.stdout.write(f"{DIRECTORY}\n")
        return
    named = arguments[1:] if arguments[:1] == ["-m"] else arguments
    if not named or named[0].startswith("-"):
        sys.exit(USAGE)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(DIRECTORY), *([others] if others else [])])
    sys.argv = named
    if named is arguments:
        sys.path[0] = str(Path(named[0]).resolve().parent)
    provide_delta()
    if named is arguments:
        runpy.run_path(named[0], run_name="__main__")
    else:
        runpy.run_module(named[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
