"""A bucket in another region than the options say: the remedy names the option."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine.errors import StorageError
from engine.storage.uri import open_store
from engine.table import DeltaTable

SAID = {
    301: "<Code>PermanentRedirect</Code><Message>Send requests to this endpoint.</Message>",
    400: "<Code>AuthorizationHeaderMalformed</Code><Message>The region 'us-east-1' is wrong.</Message>",
}


class Elsewhere(BaseHTTPRequestHandler):
    """An S3 server that answers for a bucket of eu-west-1; its answer to HEAD has no body."""

    protocol_version = "HTTP/1.1"

    def _answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"<Error>{SAID[self.server.status]}</Error>".encode()
        self.send_response(self.server.status)
        self.send_header("x-amz-bucket-region", "eu-west-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = _answer  # noqa: N815 - the server's names

    def log_message(self, *_):
        """Write no log."""


@pytest.fixture(params=SAID)
def options(request):
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        server.status = request.param
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield {
            "aws_access_key_id": "x",
            "aws_secret_access_key": "x",
            "aws_region": "us-east-1",
            "aws_endpoint_url": f"http://127.0.0.1:{server.server_address[1]}",
            "allow_http": "true",
        }
        server.shutdown()


def test_opening_a_table_of_another_region_names_the_option(options):
    with pytest.raises(StorageError, match="Set aws_region"):
        DeltaTable.open("s3://lake/t", options).version()


def test_listing_and_writing_there_name_it_too(options):
    store = open_store("s3://lake/t", options)
    with pytest.raises(StorageError, match="Set aws_region"):
        list(store.list_from("_delta_log", ""))
    with pytest.raises(StorageError, match="Set aws_region"):
        store.put_if_absent("a.parquet", b"1")
