"""Webhooks over TLS: nothing is sent to a server with a wrong certificate."""

import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakeui.monitoring.alerting import webhooks
from lakeui.monitoring.alerting.webhooks import DeliveryError, post, webhook_at


@pytest.fixture
def certificate(tmp_path):
    """Create a self-signed certificate for another host."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("other.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "certificate.pem"
    path.write_bytes(key.private_bytes(pem, form, no_password) + made.public_bytes(pem))
    return path


@pytest.fixture
def server(certificate):
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            """Write no log."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    running = HTTPServer(("127.0.0.1", 0), Handler)
    running.socket = context.wrap_socket(running.socket, server_side=True)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://localhost:{running.server_address[1]}/hook", bodies
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def test_an_untrusted_certificate_receives_nothing(server):
    url, bodies = server
    with pytest.raises(DeliveryError, match="TLS: self-signed certificate"):
        post(webhook_at(url, of_settings=True), b"{}", {}, 5)
    assert bodies == []


def test_a_certificate_of_another_host_gets_nothing(server, certificate, monkeypatch):
    url, bodies = server
    trusting = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(webhooks, "_context", lambda: trusting)
    with pytest.raises(DeliveryError, match="TLS: Hostname mismatch"):
        post(webhook_at(url, of_settings=True), b"{}", {}, 5)
    assert bodies == []
