"""Object stores as Spark reads them: the engine's storage options, translated for Hadoop.

Spark writes nothing there: executors write through the engine's own stores. Spark reads data files
and sources by Hadoop's connectors; their jars must be on its class path.
"""

import os
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from engine.errors import RequestError
from engine.spark.session import is_remote
from engine.storage.connectors import CONNECTORS

_AZURE_HOST = "dfs.core.windows.net"
_AWS_SDK = "software.amazon.awssdk.auth.credentials"
_S3A = "org.apache.hadoop.fs.s3a"
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def check_file_system(spark: SparkSession, root: str) -> None:
    """Check that Spark can read the table's location.

    Raises:
        RequestError: it lacks the named connector.
    """
    connector = CONNECTORS.get(root.partition("://")[0])
    if connector is None or "://" not in root or is_remote(spark):
        return
    try:
        # only Spark's class loader has the jars of `spark.jars`, not the gateway's
        spark.sparkContext._jvm.org.apache.spark.util.Utils.classForName(  # type: ignore[union-attr]
            connector.file_system, True, False
        )
    except Py4JError as error:
        name = connector.file_system.rpartition(".")[2]
        msg = f"Spark cannot read {root}, because it has no {name}."
        remedy = (
            f"Run manage.py connectors {connector.name} --fetch, or list the jars of "
            f"{connector.artifact} in SPARK_JARS. Then restart the worker."
        )
        raise RequestError(msg, remedy, field="table") from error


def spark_path(root: str, path: str, storage_options: Mapping[str, str] | None = None) -> str:
    """Return a decoded path below a root in Hadoop's spelling.

    Raises:
        RequestError: no file system of Spark serves the location, or an Azure account is not named.
    """
    scheme, separator, rest = root.partition("://")
    if not separator:
        return f"file:{root.rstrip('/')}/{path}"
    if scheme == "memory":
        msg = f"{root} is in this process's memory, where Spark cannot read."
        raise RequestError(msg, "Use a table on disk or in an object store.", field="table")
    if scheme == "az":
        container, _, below = rest.partition("/")
        name, host = _azure_place(container, _azure_options(storage_options or {}))
        return f"abfss://{name}@{host}/{'/'.join(part for part in (below, path) if part)}"
    return f"{'s3a' if scheme == 's3' else scheme}://{rest.rstrip('/')}/{path}"


def hadoop_options(root: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """Return a table's storage options as Hadoop settings, for the options of a scan.

    They apply to one bucket or account. Hadoop keeps an open file system for the life of the JVM:
    of two sets of options for one bucket Spark uses the first.

    Args:
        root: the table's normalized location.
        storage_options: those of the engine's store; missing ones come from the environment by the
            same names.

    Raises:
        RequestError: an Azure account is not named.
    """
    scheme, separator, rest = root.partition("://")
    translate = _TRANSLATIONS.get(scheme)
    if not separator or translate is None:
        return {}
    return translate(rest.partition("/")[0], storage_options)


class _Options:
    """Storage options by the names of one provider, in any case and with or without prefix."""

    def __init__(self, prefix: str, given: Mapping[str, str]) -> None:
        def plain(mapping: Mapping[str, str]) -> dict[str, str]:
            return {key.lower().removeprefix(prefix): str(mapping[key]) for key in mapping}

        surroundings = {k: v for k, v in os.environ.items() if k.lower().startswith(prefix)}
        self._values = {**plain(surroundings), **plain(given)}

    def get(self, *names: str) -> str | None:
        """Return the value of the first name with a value."""
        return next((self._values[name] for name in names if self._values.get(name)), None)

    def is_true(self, *names: str) -> bool:
        return (self.get(*names) or "").lower() in {"1", "true", "yes", "on"}


def _s3(bucket: str, given: Mapping[str, str]) -> dict[str, str]:
    options = _Options("aws_", given)
    key, secret = options.get("access_key_id"), options.get("secret_access_key")
    token = options.get("session_token", "token")
    endpoint = options.get("endpoint_url_s3", "endpoint_url", "endpoint")
    settings = {
        "access.key": key,
        "secret.key": secret,
        "session.token": token,
        "endpoint": endpoint,
        "endpoint.region": options.get("region", "default_region"),
        "aws.credentials.provider": _s3_provider(
            options, has_keys=bool(key), has_token=bool(token)
        ),
        "requester.pays.enabled": "true" if options.is_true("request_payer") else None,
        "connection.timeout": _milliseconds(options.get("timeout")),
        "connection.establish.timeout": _milliseconds(options.get("connect_timeout")),
    }
    if endpoint is not None:
        virtual = options.is_true("virtual_hosted_style_request")
        settings["path.style.access"] = str(not virtual).lower()
        settings["connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    prefix = f"fs.s3a.bucket.{bucket}."
    return {prefix + name: value for name, value in settings.items() if value is not None}


def _s3_provider(options: _Options, *, has_keys: bool, has_token: bool) -> str | None:
    """Return S3A's credentials provider; None for Hadoop's chain: environment, then instance."""
    if options.is_true("skip_signature"):
        return f"{_S3A}.AnonymousAWSCredentialsProvider"
    if has_keys:
        return f"{_S3A}.{'Temporary' if has_token else 'Simple'}AWSCredentialsProvider"
    if options.get("web_identity_token_file"):
        return f"{_AWS_SDK}.WebIdentityTokenFileCredentialsProvider"
    if options.get("container_credentials_relative_uri", "container_credentials_full_uri"):
        return f"{_AWS_SDK}.ContainerCredentialsProvider"
    return None


def _milliseconds(duration: str | None) -> str | None:
    """Convert a duration from obstore's spelling (`30s`, `2m`) to Hadoop's."""
    if duration is None:
        return None
    digits = duration.rstrip("hms")
    factor = _SECONDS.get(duration[len(digits) :])
    try:
        return None if factor is None else f"{int(float(digits) * factor * 1000)}ms"
    except ValueError:
        return None


def _azure(container: str, given: Mapping[str, str]) -> dict[str, str]:
    options = _azure_options(given)
    _, host = _azure_place(container, options)
    client, secret = options.get("client_id"), options.get("client_secret")
    tenant = options.get("tenant_id", "authority_id")
    settings: dict[str, str | None] = {}
    if key := options.get("account_key", "access_key", "master_key"):
        settings["account.key"] = key
    elif sas := options.get("sas_token", "sas_key"):
        settings["account.auth.type"] = "SAS"
        settings["sas.fixed.token"] = sas.lstrip("?")
    elif client and secret and tenant:
        authority = options.get("authority_host") or "https://login.microsoftonline.com"
        settings["account.auth.type"] = "OAuth"
        settings["account.oauth.provider.type"] = (
            "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        )
        settings["account.oauth2.client.id"] = client
        settings["account.oauth2.client.secret"] = secret
        settings["account.oauth2.client.endpoint"] = (
            f"{authority.rstrip('/')}/{tenant}/oauth2/v2.0/token"
        )
    return {f"fs.azure.{name}.{host}": value for name, value in settings.items() if value}


def _azure_options(given: Mapping[str, str]) -> _Options:
    """Azure's options come with either of two prefixes, or none."""
    shortened = {
        key.lower().removeprefix("azure_").removeprefix("storage_"): given[key] for key in given
    }
    return _Options("azure_storage_", shortened)


def _azure_place(authority: str, options: _Options) -> tuple[str, str]:
    """Container and host: the account is in the authority, or in the options."""
    container, _, host = authority.partition("@")
    if host:
        return container, host
    account = options.get("account_name")
    if account is None:
        msg = (
            f"Spark cannot read az://{authority}, because the storage account of the "
            "container is not set."
        )
        remedy = "Set azure_storage_account_name in TABLE_STORAGE_OPTIONS."
        raise RequestError(msg, remedy, field="table")
    return container, f"{account}.{_AZURE_HOST}"


def _gcs(bucket: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a scan: the connector has none per bucket."""
    del bucket
    options = _Options("google_", given)
    settings = {"fs.gs.impl": CONNECTORS["gs"].file_system}
    if options.is_true("skip_signature"):
        return settings | {"fs.gs.auth.type": "UNAUTHENTICATED"}
    keyfile = options.get("service_account", "service_account_path", "application_credentials")
    if keyfile is None:
        return settings
    return settings | {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": keyfile,
    }


_TRANSLATIONS: Mapping[str, Callable[[str, Mapping[str, str]], dict[str, str]]] = {
    "s3": _s3,
    "az": _azure,
    "gs": _gcs,
}
