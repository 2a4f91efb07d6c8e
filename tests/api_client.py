"""A whole API server in memory and a client that talks to it without a socket: what the tests of the API use.

`served` makes a test of a coroutine function: it gets an `Api` on a fresh store, in virtual time.
"""

import asyncio
import contextlib
import functools
import inspect
import json
from urllib.parse import urlencode

from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.base.jwt import KeySet, SigningKey
from kapi.controlplane.admission import Parts, admission_for
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.controlplane.bootstrap import ensure_objects
from kapi.registry.catalog import Catalog
from kapi.registry.custom.definitioncontroller import DefinitionController
from kapi.server.authn.authenticator import Authenticator
from kapi.server.authn.bootstraptokens import BootstrapTokens
from kapi.server.authn.certificate import ClientCertificates
from kapi.server.authn.serviceaccounts import ServiceAccountTokens
from kapi.server.authn.tokenissuer import TokenIssuer
from kapi.server.authn.tokens import StaticTokens, TokenSources
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.authorizer import Authorizer
from kapi.server.authz.rbac.authorizer import RbacAuthorizer
from kapi.server.authz.rbac.escalation import EscalationCheck
from kapi.server.authz.rbac.policy import Policy
from kapi.server.authz.superuser import PrivilegedGroup
from kapi.server.pages.health import STORE, Health
from kapi.server.pages.metrics import Metrics
from kapi.server.pipeline import Pipeline
from kapi.server.routes import router
from kapi.server.services import Services
from kapi.server.transport.inprocess import InProcessTransport
from kapi.server.transport.message import Peer, Request
from kapi.storage.memory import MemoryStorage
from virtual_time import LoopClock, run

NO_ACCOUNTS = AdmissionOptions(disabled=frozenset({"ServiceAccount"}))
"""For tests without the controller that creates the account `default` in each namespace, as envtest has it."""
TOKEN = "a-token"
AUDIENCES = ("https://kubernetes.default.svc.cluster.local",)
NS = "/api/v1/namespaces"
CM = f"{NS}/default/configmaps"
PODS = f"{NS}/default/pods"
SVC = f"{NS}/default/services"
DEPLOY = "/apis/apps/v1/namespaces/default/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class SlowStorage(MemoryStorage):
    """A store whose writes take a moment, as on a disk: other tasks run between reading and writing."""

    async def commit(self, operations):
        await asyncio.sleep(0)
        return await super().commit(operations)

    async def put(self, key, draft, expected, note=None):
        await asyncio.sleep(0)
        return await super().put(key, draft, expected, note)

    async def delete(self, key, expected, note=None):
        await asyncio.sleep(0)
        return await super().delete(key, expected, note)


class Answer:
    """A response: status, headers in order, and the body, raw and as JSON."""

    def __init__(self, status, headers, raw):
        self.status = status
        self.headers = headers
        self.raw = raw

    def __repr__(self):
        return f"<{self.status} {self.raw[:2000].decode(errors='replace')}>"

    def __getitem__(self, key):
        return self.json[key]

    @functools.cached_property
    def json(self):
        return json.loads(self.raw)

    @property
    def text(self):
        return self.raw.decode()

    @property
    def message(self):
        return self.json["message"]

    @property
    def error(self):
        """Code, reason and message of a Status; the HTTP status must agree with it."""
        assert self.json["kind"] == "Status", self
        assert self.json["code"] == self.status, self
        return self.status, self.json.get("reason", ""), self.json["message"]

    @property
    def metadata(self):
        return self.json["metadata"]

    @property
    def version(self):
        return self.metadata["resourceVersion"]

    @property
    def names(self):
        return [item["metadata"]["name"] for item in self.json["items"]]

    @property
    def warnings(self):
        return [value.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for value in self.every("Warning")]

    def every(self, name):
        """All values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name):
        """The value of a header that is there at most once."""
        values = self.every(name)
        assert len(values) < 2, values
        return values[0] if values else None


class Watch:
    """An open watch: its events one by one. Waiting is in virtual time, so what does not come is known at once."""

    def __init__(self, reply):
        self.status = reply.status
        self.headers = reply.headers
        self.reply = reply
        self._buffer = b""

    async def next(self, *, within=30):
        """The next event; None when the stream has ended."""
        while b"\n" not in self._buffer:
            async with asyncio.timeout(within):
                chunk = await anext(self.reply, b"")
            if not chunk:
                assert not self._buffer, "the stream ended inside an event"
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def take(self, count, *, within=30):
        return [await self.next(within=within) for _ in range(count)]

    async def brief(self, count):
        """Type and name of the next events."""
        return [(event["type"], event["object"]["metadata"].get("name")) for event in await self.take(count)]

    async def rest(self, *, within=100_000):
        """Everything up to the end of the stream."""
        events = []
        while (event := await self.next(within=within)) is not None:
            events.append(event)
        return events

    async def is_quiet(self, seconds=30):
        """Return True if no event arrives for a while."""
        try:
            await self.next(within=seconds)
        except TimeoutError:
            return True
        return False

    async def close(self):
        await self.reply.aclose()


class Api:
    """A server on a store, and a client of it that may do everything."""

    def __init__(
        self,
        storage=None,
        *,
        admission=None,
        admission_options=NO_ACCOUNTS,
        clock=None,
        converter_for=None,
        service_cidrs=("10.0.0.0/24",),
        auditor=None,
        authorities=None,
        tokens=None,
        key_file=None,
    ):
        self.storage = storage or MemoryStorage()
        self.clock = clock or LoopClock()
        self.service_cidrs = service_cidrs
        self.catalog = Catalog(self.storage, self.clock, converter_for=converter_for, service_cidrs=service_cidrs)
        self.policy = Policy(self.catalog)
        authorizer = Authorizer(PrivilegedGroup(), RbacAuthorizer(self.policy))
        self.health = Health()
        self.health.add(STORE, lambda: None)
        self.metrics = Metrics()
        users = {TOKEN: User("alice", ("devs",), "u-1"), **(tokens or {})}
        sources = [StaticTokens(users, AUDIENCES)]
        issuer = None
        if key_file is not None:
            key = SigningKey(key_file)
            keys = KeySet([key.public])
            issuer = TokenIssuer(key, keys, AUDIENCES[0], AUDIENCES)
            sources.append(ServiceAccountTokens(keys, self.catalog, AUDIENCES, AUDIENCES, self.clock))
            sources.append(BootstrapTokens(self.catalog, AUDIENCES, self.clock))
        self.services = Services(
            catalog=self.catalog,
            clock=self.clock,
            authenticator=Authenticator(TokenSources(AUDIENCES, *sources), ClientCertificates(authorities)),
            token_issuer=issuer,
            authorizer=authorizer,
            admission=admission or self._default_admission(authorizer, admission_options),
            health=self.health,
            metrics=self.metrics,
            auditor=auditor,
            address="127.0.0.1:6443",
        )
        self.pipeline = Pipeline(self.services, router(self.services))
        self.transport = InProcessTransport(self.pipeline)
        self._definition_controller = None

    def _default_admission(self, authorizer, options):
        async def may_use_signer(user, verb, name):
            attributes = Attributes(user, verb, "certificates.k8s.io", "*", "signers", name=name)
            return (await authorizer.authorize(attributes)).allowed

        parts = Parts(
            self.catalog, self.clock, authorizer, may_use_signer, lambda: self.outbound, self.metrics.registry
        )
        return admission_for(options, parts, ("EscalationCheck", EscalationCheck(self.policy, authorizer)))

    @functools.cached_property
    def outbound(self):
        from kapi.base.http import Outbound

        return Outbound()

    async def start(self):
        await self.catalog.load()
        self.policy.start()
        self._definition_controller = asyncio.ensure_future(DefinitionController(self.catalog).run())
        await ensure_objects(self.transport, 6443, self.service_cidrs)

    async def stop(self):
        await self.transport.close()
        if "outbound" in self.__dict__:
            await self.outbound.close()
        if self._definition_controller is not None:
            self._definition_controller.cancel()
            await asyncio.gather(self._definition_controller, return_exceptions=True)
        self.catalog.hub.close()

    @property
    def revision(self):
        return self.storage.revision

    async def request(self, method, path, body=b"", *, headers=None, transport=None, **query):
        """One request; `body` may be an object. Query keys with a trailing underscore lose it (`continue_`)."""
        target = path
        if query:
            target += "?" + urlencode({key.rstrip("_"): value for key, value in query.items()})
        headers = {key.lower(): value for key, value in (headers or {}).items()}
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("content-type", JSON)
        reply = await (transport or self.transport).request(method, target, headers, body)
        return Answer(reply.status, reply.headers, await reply.read())

    async def get(self, path, **query):
        return await self.request("GET", path, **query)

    async def post(self, path, obj, **query):
        return await self.request("POST", path, obj, **query)

    async def put(self, path, obj, **query):
        return await self.request("PUT", path, obj, **query)

    async def patch(self, path, patch, content_type=MERGE, **query):
        headers = {"content-type": content_type, **query.pop("headers", {})}
        return await self.request("PATCH", path, patch, headers=headers, **query)

    async def delete(self, path, options=b"", **query):
        return await self.request("DELETE", path, options, **query)

    async def watch(self, path, *, headers=None, **query):
        """Open a watch; it has begun when this returns."""
        target = path + "?" + urlencode({"watch": "true", **query})
        watch = Watch(await self.transport.request("GET", target, headers))
        await asyncio.sleep(0.001)
        return watch

    async def made(self, path, obj):
        """Create something that must succeed; the object."""
        answer = await self.post(path, obj)
        assert answer.status == 201, answer
        return answer.json

    def user(self, name, *groups):
        """The transport of a user: `api.request(…, transport=api.user("bob", "devs"))`."""
        return InProcessTransport(self.pipeline, name, groups)

    async def as_peer(self, method, path, *, peer=None, headers=None, body=b""):
        """Send one request as another peer, by default as an anonymous user."""
        target, _, query = path.partition("?")
        request = Request(method, target, query, headers or {}, body, peer or Peer("192.0.2.1"))
        response = await self.pipeline(request)
        whole = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        return Answer(response.status, response.headers, whole)


async def user_of_token(api, token):
    """The UserInfo of a request with a bearer token, None for 401."""
    request = Request("GET", "/", headers={"authorization": f"Bearer {token}"}, peer=Peer("192.0.2.1"))
    authenticator = api.services.authenticator
    try:
        user = authenticator.identify(request) or await authenticator.authenticate(request)
    except Unauthorized:
        return None
    return user.info()


@contextlib.asynccontextmanager
async def serving(storage=None, **parts):
    """An `Api` that has been started; a day of virtual time with it is too much."""
    api = Api(storage, **parts)
    async with asyncio.timeout(24 * 3600):
        await api.start()
        try:
            yield api
        finally:
            await api.stop()


def served(test=None, *, storage=MemoryStorage):
    """Run `test(api, …)` against a fresh server in virtual time."""
    if test is None:
        return functools.partial(served, storage=storage)

    @functools.wraps(test)
    def runner(*args, **kwargs):
        async def main():
            async with serving(storage()) as api:
                await test(api, *args, **kwargs)

        run(main())

    parameters = list(inspect.signature(test).parameters.values())[1:]
    runner.__signature__ = inspect.Signature(parameters)
    return runner


def cm(name="a", **fields):
    """A ConfigMap; metadata fields are given with `metadata=`."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def pod(name="p", *, metadata=None, **spec):
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": containers, **spec},
    }


def deployment(name="d", **spec):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


def lease(name="l", **spec):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
