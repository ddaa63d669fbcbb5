"""A store that ignores a conditional put is detected before it loses a commit."""

import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine.errors import FileExistsAlreadyError, StorageError
from engine.storage.uri import open_store

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
COMMIT = "_delta_log/00000000000000000001.json"


class Careless(BaseHTTPRequestHandler):
    """The part of S3 that two writers need, without If-None-Match."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        self.server.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        (name,) = re.findall(r"<Key>(.*?)</Key>", asked)
        del self.server.objects[f"/lake/{name}"]
        deleted = f"<Deleted><Key>{name}</Key></Deleted>"
        self._answer(f'<DeleteResult xmlns="{NAMESPACE}">{deleted}</DeleteResult>'.encode())

    def _answer(self, body=b""):
        self.send_response(200)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Write no log."""


@pytest.fixture
def careless():
    with ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        server.objects = {}
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def _options(server, **more):
    place = f"http://127.0.0.1:{server.server_address[1]}"
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "aws_region": "x"}
    return {**keys, "aws_endpoint_url": place, "allow_http": "true", **more}


def test_a_commit_is_refused_where_it_could_be_overwritten(careless):
    store = open_store("s3://lake/t", _options(careless))
    store.put_if_absent("part-0.parquet", b"rows")
    for _ in range(2):
        with pytest.raises(StorageError, match="one commit would be lost"):
            store.put_if_absent(COMMIT, b"{}")
    assert [*careless.objects] == ["/lake/t/part-0.parquet"]


def test_a_single_writer_may_allow_a_store_that_overwrites(careless):
    store = open_store("s3://lake/t", _options(careless, allow_unsafe_commits="true"))
    store.put_if_absent(COMMIT, b"{}")
    assert [*careless.objects] == [f"/lake/t/{COMMIT}"]


def test_a_careful_store_is_tried_once_and_keeps_nothing_of_it(s3_options):
    root = f"s3://lake/{uuid.uuid4()}"
    store = open_store(root, s3_options)
    store.put_if_absent(COMMIT, b"{}")
    assert [file.path for file in store.list_all()] == [COMMIT]
    with pytest.raises(FileExistsAlreadyError):
        open_store(root, s3_options).put_if_absent(COMMIT, b"other")
