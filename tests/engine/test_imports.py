"""The engine is a library of its own: it imports where the server's packages are not installed."""

import subprocess
import sys

_SERVER = ("django", "rest_framework", "celery", "redis", "kombu", "knox", "structlog", "lakeui")
_IMPORT_ALL = f"""
import importlib, pkgutil, sys
for name in {_SERVER}:
    sys.modules[name] = None  # an import of it raises ImportError
import engine
names = [module.name for module in pkgutil.walk_packages(engine.__path__, "engine.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_the_engine_imports_without_the_packages_of_the_server():
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", _IMPORT_ALL], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 200


def test_the_library_and_the_client_import_without_pyspark_and_statements_say_what_to_install():
    code = """
import importlib, pkgutil, sys
for name in ("pyspark", "pandas"):
    sys.modules[name] = None
import engine, lakeui.client
over = ("engine.spark", "engine.operations", "engine.delta.")
names = [module.name for module in pkgutil.walk_packages(engine.__path__, "engine.", str)]
for name in names:
    if not name.startswith(over):
        importlib.import_module(name)
print(len(names))
for name in ("engine.spark.session", "engine.operations.run", "engine.delta"):
    try:
        importlib.import_module(name).DeltaTable
    except ModuleNotFoundError as error:
        print(error)
"""
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    count, *messages = ended.stdout.splitlines()
    assert int(count) > 100
    assert len(messages) == 3
    assert all("pip install 'lakeui[spark]'" in message for message in messages)


def test_pandas_is_loaded_only_for_frames():
    """Arrow would load pandas at its first Python value, which takes half as much time and memory again."""
    code = "import lakeui.asgi, lakeui.urls, engine.table, sys; print('pandas' in sys.modules)"
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\n"
