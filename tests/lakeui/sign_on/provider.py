"""An OpenID provider over real HTTP with tokens that a test can spoil; it checks the code verifier."""

import base64
import hashlib
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "lakeui"
_KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


class Provider:
    """The contents of the next token, and the requests that the provider received."""

    def __init__(self, issuer):
        self.issuer = issuer
        self.claims = {"sub": "s-1", "preferred_username": "ada", "email": "ada@example.org"}
        self.spoiled = {}
        self.key = _KEY
        self.header = {"alg": "RS256", "kid": "one"}
        self.metadata = {}
        self.userinfo = {}
        self.answer = None
        self.begun = {}

    def authorize(self, address):
        """Agree as the person; return the address to which the browser is sent back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.begun["code"] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': 'code', 'state': asked['state']})}"

    def token(self, form):
        asked = self.begun.pop("code", None)
        digest = hashlib.sha256(form.get("code_verifier", [""])[0].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        }
        claims |= self.claims | self.spoiled
        claims = {name: value for name, value in claims.items() if value is not None}
        signed = jwt.encode(self.header, claims, self.key, algorithms=[self.header["alg"]])
        return 200, {"access_token": "t", "token_type": "Bearer", "id_token": signed}

    def documents(self):
        public = _KEY.as_dict(private=False)
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "end_session_endpoint": f"{self.issuer}/end",
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
                **self.metadata,
            },
            "/keys": {"keys": [public]},
            "/userinfo": {"sub": self.claims["sub"], **self.userinfo},
        }


@contextmanager
def run_provider():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._send(*(provider.answer or (200, provider.documents()[self.path])))

        def do_POST(self):
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._send(*provider.token(form))

        def _send(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = Provider(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
