"""`manage.py connectors [s3|azure|gcs] [--fetch]`: Spark's jars for object stores."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from engine.errors import EngineError
from engine.storage.connectors import (
    CONNECTORS,
    Connector,
    connector_jars,
    fetch_connector,
    hadoop_version,
    has_connector,
)


class Command(BaseCommand):
    help = "Show or fetch the jars that Spark needs to read tables in S3, Azure or Google Cloud."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        names = [connector.name for connector in CONNECTORS.values()]
        parser.add_argument(
            "connector", nargs="*", help=f"connectors to use, of {', '.join(names)}; all by default"
        )
        parser.add_argument("--fetch", action="store_true", help="fetch the jars with Maven")

    def handle(self, *args: object, **options: object) -> None:
        del args
        by_name = {connector.name: connector for connector in CONNECTORS.values()}
        names = [str(name) for name in list(options["connector"] or by_name)]  # type: ignore[call-overload]
        unknown = [name for name in names if name not in by_name]
        if unknown:
            msg = f"There is no connector {unknown[0]}. Use one of {', '.join(by_name)}."
            raise CommandError(msg)
        try:
            for name in names:
                self._show(by_name[name], fetch=bool(options["fetch"]))
        except EngineError as error:
            raise CommandError(str(error)) from error

    def _show(self, connector: Connector, *, fetch: bool) -> None:
        home = settings.SPARK_CONNECTORS
        if fetch:
            jars = fetch_connector(connector, home)
            megabytes = sum(jar.stat().st_size for jar in jars) / 1e6
            self.stdout.write(
                f"{connector.name:6} {len(jars)} jars, {megabytes:,.0f} MB, in {home / connector.name}."
                " Start the Spark workers again."
            )
            return
        coordinates = f"{connector.group}:{connector.artifact}:{hadoop_version()}"
        is_there = has_connector(home, connector)
        here = f"here, {len(connector_jars(home))} jars" if is_there else "not fetched"
        self.stdout.write(f"{connector.name:6} {coordinates:42} {here}")
