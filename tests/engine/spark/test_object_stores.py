"""Storage options for Hadoop's file systems, and URIs as Spark spells them."""

import pytest

from engine.errors import RequestError
from engine.spark.object_stores import hadoop_options, spark_path

S3 = "fs.s3a.bucket.lake."
AZURE = {"azure_storage_account_name": "acme", "azure_storage_account_key": "a key"}


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch):
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "keys",
    [
        ("aws_access_key_id", "aws_secret_access_key", "aws_endpoint_url", "aws_region"),
        ("access_key_id", "secret_access_key", "endpoint", "default_region"),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT", "AWS_REGION"),
    ],
)
def test_keys_endpoint_and_region_of_a_bucket(keys):
    given = dict(zip(keys, ("key", "secret", "http://127.0.0.1:9000", "eu-1"), strict=True))
    assert hadoop_options("s3://lake/sales/orders", given) == {
        f"{S3}access.key": "key",
        f"{S3}secret.key": "secret",
        f"{S3}aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        f"{S3}endpoint": "http://127.0.0.1:9000",
        f"{S3}endpoint.region": "eu-1",
        f"{S3}path.style.access": "true",
        f"{S3}connection.ssl.enabled": "false",
    }


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        ({"aws_skip_signature": "true"}, "AnonymousAWSCredentialsProvider"),
        ({"access_key_id": "k", "token": "t"}, "TemporaryAWSCredentialsProvider"),
        ({"aws_web_identity_token_file": "/t"}, "WebIdentityTokenFileCredentialsProvider"),
        ({"aws_container_credentials_relative_uri": "/x"}, "ContainerCredentialsProvider"),
    ],
)
def test_the_options_decide_the_provider_of_credentials_for_s3(given, provider):
    settings = hadoop_options("s3://lake/t", given)
    assert settings[f"{S3}aws.credentials.provider"].rpartition(".")[2] == provider


def test_without_options_hadoop_finds_credentials_itself():
    assert hadoop_options("s3://lake/t", {}) == {}


def test_the_environment_counts_where_the_options_say_nothing(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example")
    settings = hadoop_options("s3://lake/t", {"region": "eu-1"})
    assert settings[f"{S3}endpoint.region"] == "eu-1"
    assert settings[f"{S3}endpoint"] == "https://store.example"
    assert settings[f"{S3}connection.ssl.enabled"] == "true"


def test_a_bucket_may_be_named_by_its_host():
    given = {"endpoint": "https://store.example", "virtual_hosted_style_request": "true"}
    assert hadoop_options("s3://lake/t", given)[f"{S3}path.style.access"] == "false"


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("30s", "30000ms"), ("2m", "120000ms"), ("250ms", "250ms")]
)
def test_durations_are_spelled_for_hadoop(text, milliseconds):
    settings = hadoop_options("s3://lake/t", {"timeout": text, "connect_timeout": "soon"})
    assert settings == {f"{S3}connection.timeout": milliseconds}


@pytest.mark.parametrize(
    ("root", "given"),
    [("az://sales/orders", AZURE), ("az://sales@acme.dfs.core.windows.net/orders", {})],
)
def test_a_container_of_azure_is_spelled_with_its_account(root, given):
    path = spark_path(root, "day=1/part 0.parquet", given)
    assert path == "abfss://sales@acme.dfs.core.windows.net/orders/day=1/part 0.parquet"


def test_azure_without_an_account_is_refused_with_the_option_to_set(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(RequestError, match="azure_storage_account_name"):
        spark_path("az://sales/orders", "part.parquet", {})


def test_keys_tokens_and_principals_of_azure():
    host = "acme.dfs.core.windows.net"
    assert hadoop_options("az://sales/t", AZURE) == {f"fs.azure.account.key.{host}": "a key"}
    sas = {"account_name": "acme", "sas_token": "?sv=1"}
    assert hadoop_options("az://sales/t", sas) == {
        f"fs.azure.account.auth.type.{host}": "SAS",
        f"fs.azure.sas.fixed.token.{host}": "sv=1",
    }
    principal = {"account_name": "acme", "client_id": "c", "client_secret": "s", "tenant_id": "t"}
    settings = hadoop_options("az://sales/t", principal)
    assert settings[f"fs.azure.account.oauth2.client.endpoint.{host}"] == (
        "https://login.microsoftonline.com/t/oauth2/v2.0/token"
    )


def test_a_key_file_of_google():
    settings = hadoop_options("gs://lake/t", {"google_service_account": "/keys/lake.json"})
    assert settings["fs.gs.auth.service.account.json.keyfile"] == "/keys/lake.json"
    assert settings["fs.gs.impl"] == "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"


def test_a_place_on_this_machine_has_no_options():
    assert hadoop_options("/lake/t", {"aws_region": "eu-1"}) == {}
    assert spark_path("/lake/t", "a b.parquet") == "file:/lake/t/a b.parquet"
