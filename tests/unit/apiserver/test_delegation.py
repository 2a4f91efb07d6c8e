"""An API server whose clients are authenticated and authorized by a cluster: a control plane over real sockets."""

import asyncio
import contextlib
import json
import ssl

import aiohttp
import pytest

from apiserver_books import BOOKS, Writable, book
from certificates import new_authority
from kapi.api.errors import ApiError, NotFound
from kapi.api.meta import GroupVersion
from kapi.apiserver import ApiServer, ServiceReference, api_service
from kapi.base.tls import Authority, KeyPair
from kapi.client import ClientConfig, RESTClient
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.controlplane.options import Options

ROLES = "/apis/rbac.authorization.k8s.io/v1"
SERVICE = ServiceReference("books", "default")


class Cluster:
    """A control plane, an API server that belongs to it, and the certificates of a front proxy."""

    def __init__(self, folder):
        self.folder = folder
        self.proxies = new_authority("proxy-ca")
        self.proxy_file = folder / "proxy-ca.crt"
        self.proxy_file.write_bytes(self.proxies.pem)
        authentication = AuthenticationOptions(
            requestheader_client_ca_file=self.proxy_file, requestheader_allowed_names=("front-proxy",)
        )
        options = Options(
            data_dir=folder / "data", port=0, storage="memory", controllers=frozenset(), authentication=authentication
        )
        self.options = options
        self.books = Writable(book("alice"))

    @contextlib.asynccontextmanager
    async def running(self):
        plane = ControlPlane(self.options)
        await plane.start()
        try:
            config = ClientConfig.from_kubeconfig(self.options.kubeconfig_path)
            async with (
                RESTClient(config) as self.admin,
                ApiServer(self.books, cluster=config, port=0, service=SERVICE, data_dir=self.folder / "own") as server,
                aiohttp.ClientSession() as self.session,
            ):
                self.server = server
                yield self
        finally:
            await plane.stop()

    def tls(self, certificate=None, name="client"):
        """A TLS context that trusts the API server and shows a certificate."""
        context = ssl.create_default_context(cadata=self.server.authority.decode())
        if certificate is not None:
            files = certificate.write(self.folder, name)
            context.load_cert_chain(files.certificate, files.key)
        return context

    async def get(self, path, headers=None, *, certificate=None, tls=None):
        """GET a path of the API server; returns the status and the document or the text."""
        context = tls or self.tls(certificate)
        async with self.session.get(self.server.url + path, headers=headers, ssl=context) as answer:
            text = await answer.text()
            is_json = answer.headers["Content-Type"].startswith("application/json")
            return answer.status, json.loads(text) if is_json else text

    def front_proxy(self, name="front-proxy", authority=None):
        return (authority or self.proxies).issue(name)

    async def allow(self, user):
        """Let a user read books."""
        rules = [{"apiGroups": ["library.example.com"], "resources": ["books"], "verbs": ["get", "list"]}]
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"reader:{user}"}
        metadata = {"name": f"reader:{user}"}
        await self.admin.request("POST", f"{ROLES}/clusterroles", body={"metadata": metadata, "rules": rules})
        binding = {"metadata": metadata, "roleRef": role, "subjects": [subject]}
        await self.admin.request("POST", f"{ROLES}/clusterrolebindings", body=binding)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A cluster and the runner of its event loop, which runs while a test does."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        folder = tmp_path_factory.mktemp("cluster")
        try:
            yield runner, runner.run(stack.enter_async_context(Cluster(folder).running()))
        finally:
            runner.run(stack.aclose())


def clustered(function):
    """Run a test function with the cluster."""

    def test(shared):
        runner, cluster = shared

        async def main():
            async with asyncio.timeout(90):
                await function(cluster)

        runner.run(main())

    test.__name__ = function.__name__
    return test


ALICE = {"X-Remote-User": "alice", "X-Remote-Group": "readers"}


@clustered
async def test_users_are_those_that_the_front_proxy_names_and_may_do_what_the_cluster_allows(cluster):
    proxy = cluster.tls(cluster.front_proxy())
    status, refusal = await cluster.get(BOOKS, ALICE, tls=proxy)
    assert status == 403
    assert 'User "alice" cannot list resource "books" in API group "library.example.com"' in refusal["message"]
    await cluster.allow("bobby")
    status, listed = await cluster.get(BOOKS, {"X-Remote-User": "bobby"}, tls=proxy)
    assert (status, [one["metadata"]["name"] for one in listed["items"]]) == (200, ["alice"])
    everything = {"X-Remote-User": "carol", "X-Remote-Group": "system:masters"}
    assert (await cluster.get("/metrics", everything, tls=proxy))[0] == 200


@clustered
async def test_headers_do_not_count_without_the_certificate_of_the_front_proxy(cluster):
    everything = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    status, refusal = await cluster.get(BOOKS, everything)
    assert (status, "system:anonymous" in refusal["message"]) == (403, True)
    foreign = new_authority("other-ca").issue("front-proxy")
    assert (await cluster.get(BOOKS, everything, certificate=foreign))[0] == 401
    other_name = cluster.front_proxy("another-client")
    assert (await cluster.get(BOOKS, everything, certificate=other_name))[0] == 401


@clustered
async def test_a_client_that_connects_itself_shows_a_certificate_of_the_cluster(cluster):
    credentials = cluster.options.data_dir / "pki"
    context = cluster.tls()
    context.load_cert_chain(credentials / "admin.crt", credentials / "admin.key")
    # A header that it sends does not make it another user.
    assert (await cluster.get(BOOKS, ALICE, tls=context))[0] == 200


@clustered
async def test_tokens_are_reviewed_by_the_cluster(cluster):
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await cluster.admin.request("POST", accounts, body={"metadata": {"name": "reader"}})
    token = (await cluster.admin.request("POST", f"{accounts}/reader/token", body={"spec": {}}))["status"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert (await cluster.get(BOOKS, headers))[0] == 403
    await cluster.allow("system:serviceaccount:default:reader")
    assert (await cluster.get(f"{BOOKS}/alice", headers))[0] == 200
    assert (await cluster.get(BOOKS, {"Authorization": "Bearer wrong"}))[0] == 401


@clustered
async def test_health_is_for_everyone_and_nothing_else_is(cluster):
    for path in ("/healthz", "/livez", "/readyz/ping"):
        assert (await cluster.get(path))[0] == 200
    for path in ("/metrics", "/apis", "/healthz/../metrics"):
        assert (await cluster.get(path))[0] == 403


@clustered
async def test_another_authority_of_the_front_proxy_is_followed(cluster):
    newer = new_authority("newer-proxy-ca")
    before, after = cluster.tls(cluster.front_proxy()), cluster.tls(cluster.front_proxy(authority=newer))
    everything = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    for pem, accepted, refused in ((newer.pem, after, before), (cluster.proxies.pem, before, after)):
        assert (await cluster.get(BOOKS, everything, tls=refused))[0] == 200
        assert (await cluster.get(BOOKS, everything, tls=accepted))[0] == 401
        cluster.proxy_file.write_bytes(pem)
        while (await cluster.get(BOOKS, everything, tls=accepted))[0] != 200:  # noqa: ASYNC110 - a file is followed
            await asyncio.sleep(0.05)
        assert (await cluster.get(BOOKS, everything, tls=refused))[0] == 401


@clustered
async def test_a_server_registers_itself_with_its_authority(cluster):
    options = {"cluster": cluster.admin.config, "port": 0, "service": SERVICE}
    name = "/apis/apiregistration.k8s.io/v1/apiservices/v1.library.example.com"
    with pytest.raises(NotFound):
        await cluster.admin.request("GET", name)
    async with ApiServer(Writable(), registers=True, **options) as server:
        found = await cluster.admin.request("GET", name)
        wanted = api_service(GroupVersion("library.example.com", "v1"), SERVICE, server.authority)
        assert server.api_services() == [wanted]
        assert {key: found["spec"][key] for key in wanted["spec"]} == wanted["spec"]


@clustered
async def test_nothing_is_created_in_a_namespace_that_the_cluster_lacks_or_deletes(cluster):
    backing = Writable()
    namespace = {"metadata": {"name": "ending", "finalizers": ["example.com/hold"]}}
    await cluster.admin.request("POST", "/api/v1/namespaces", body=namespace)
    await cluster.admin.request("DELETE", "/api/v1/namespaces/ending")
    async with ApiServer(backing, cluster=cluster.admin.config, port=0, checks_namespaces=True) as server:
        context = ssl.create_default_context(cadata=server.authority.decode())
        keys = cluster.options.data_dir / "pki"
        context.load_cert_chain(keys / "admin.crt", keys / "admin.key")

        async def create(namespace):
            url = server.url + BOOKS.replace("/default/", f"/{namespace}/")
            async with cluster.session.post(url, json=book("new", namespace=namespace), ssl=context) as answer:
                return answer.status, (await answer.json()).get("message")

        assert await create("missing") == (404, 'namespaces "missing" not found')
        status, message = await create("ending")
        assert (status, "because it is being terminated" in message) == (403, True)
        assert await create("default") == (201, None)
        assert [call[0] for call in backing.calls] == ["create"]


@clustered
async def test_a_certificate_that_is_given_is_served_and_followed(cluster):
    folder = cluster.folder
    authority = Authority.ensure(KeyPair(folder / "own-ca.crt", folder / "own-ca.key"), "own-ca")
    ca_file, files = authority.files.certificate, KeyPair(folder / "served.crt", folder / "served.key")
    authority.ensure_server(files, ("first", "127.0.0.1"))
    options = {"cert_file": files.certificate, "key_file": files.key, "ca_file": ca_file}
    async with ApiServer(Writable(), cluster=cluster.admin.config, port=0, **options) as server:
        assert server.authority == ca_file.read_bytes()
        context = ssl.create_default_context(cafile=ca_file)

        async def served_name():
            port = int(server.url.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            subject = writer.get_extra_info("peercert")["subject"]
            writer.close()
            await writer.wait_closed()
            return subject[-1][0][1]

        assert await served_name() == "first"
        authority.ensure_server(files, ("second", "127.0.0.1"))
        while await served_name() != "second":  # noqa: ASYNC110 - files are followed
            await asyncio.sleep(0.05)


@clustered
async def test_a_server_does_not_start_without_what_the_cluster_publishes(cluster):
    anonymous = cluster.admin.config.anonymous()
    with pytest.raises(ApiError, match='"extension-apiserver-authentication" is forbidden'):
        async with ApiServer(Writable(), cluster=anonymous, port=0):
            pass


def test_a_server_that_registers_needs_a_cluster_and_a_service():
    with pytest.raises(ValueError, match="needs a cluster and a service"):
        ApiServer(Writable(), registers=True)
    with pytest.raises(ValueError, match="belong together"):
        ApiServer(Writable(), cert_file="server.crt")
