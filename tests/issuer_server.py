"""An OpenID Connect issuer and a token review webhook on loopback, with TLS: what they publish and answer is scripted."""

import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from kapi.base.webhandler import Response
from kapi.base.webserver import WebServer
from webhook_server import Certificates

RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


class IssuerServer:
    """A server; used as `async with`."""

    def __init__(self, folder):
        self.certificates = Certificates(folder)
        self.keys = {"k1": RSA_KEY}
        self.fetches = 0
        """How often the keys were asked for."""
        self.issuer = None
        """The issuer in the discovery document, if it is not this server."""
        self.broken = False
        self.reviews = []
        """The TokenReviews that were received."""
        self.answer = lambda review: {"authenticated": False}
        """The status of a TokenReview, or a status code."""

    async def __aenter__(self):
        self._server = WebServer(self._handle, context=self.certificates.server())
        await self._server.__aenter__()
        self.url = f"https://127.0.0.1:{self._server.port}"
        return self

    async def __aexit__(self, *error):
        await self._server.__aexit__(*error)

    async def _handle(self, request):
        if self.broken:
            return Response(503, b"")
        if request.path.endswith("/.well-known/openid-configuration") or request.path == "/discovery":
            return _json({"issuer": self.issuer or self.url, "jwks_uri": f"{self.url}/keys"})
        if request.path == "/keys":
            self.fetches += 1
            return _json({"keys": [_published(kid, key) for kid, key in self.keys.items()]})
        review = json.loads(request.body)
        self.reviews.append(review)
        status = self.answer(review)
        return Response(status, b"") if isinstance(status, int) else _json({**review, "status": status})

    def config(self, **changes):
        """An entry of an AuthenticationConfiguration for this issuer."""
        issuer = {"url": self.url, "audiences": ["kapi"], "certificateAuthority": self.certificates.pem.decode()}
        mappings = {"username": {"claim": "sub", "prefix": "oidc:"}}
        return {"issuer": issuer | changes.pop("issuer", {}), "claimMappings": mappings, **changes}

    def token(self, now, *, kid="k1", key=None, algorithm="RS256", **claims):
        """A token of this issuer, valid for an hour from `now`."""
        moment = int(now.timestamp())
        said = {"iss": self.url, "aud": "kapi", "sub": "alice", "exp": moment + 3600, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self.keys[kid] if key is None else key, algorithm, {"kid": kid} if kid else None)


def _published(kid, key):
    kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}


def _json(obj):
    return Response(200, json.dumps(obj).encode(), content_type="application/json")
