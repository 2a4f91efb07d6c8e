"""What a store on etcd is opened with, and what it is refused for: addresses, certificates, users, foreign data."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from kapi_process import KAPI
from storage_backends import value

from bench import kube_apiserver
from bench.client import Address
from bench.target import HOST, Process, wait_ready
from certificates import new_authority
from etcd_cluster import PROGRAM, EtcdCluster, free_ports
from kapi.storage.etcd import messages
from kapi.storage.etcd.address import parse_address
from kapi.storage.etcd.cluster import TXN, Cluster
from kapi.storage.etcd.monitor import EtcdMonitor
from kapi.storage.etcd.opening import Opened, open_store
from kapi.storage.etcd.storage import EtcdStorage
from kapi.storage.interface import Draft, StorageUnavailable, StorageUnreachable
from peers import peer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.peers

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def program() -> None:
    peer(PROGRAM, "etcd")


@pytest.fixture
def address(etcd: EtcdCluster) -> str:
    """The address of a store that does not exist yet."""
    return f"etcd://{etcd.endpoints}/opening/{next(_numbers)}?timeout=60"


async def use(text: str, *, shift: int = 0) -> tuple[int, int]:
    """Open a store and write to it; returns its revision before and after."""
    store = await EtcdStorage.open(parse_address(text), shift=shift)
    try:
        before = store.revision
        entry = await store.get("/a")
        return before, await store.put("/a", value(), entry.revision if entry else 0)
    finally:
        await store.close()


async def put(text: str, key: str, content: bytes) -> None:
    """Write a key as another program would."""
    cluster = Cluster(parse_address(text))
    request = messages.txn_request([], [messages.put_operation(key.encode(), content)], [])
    await cluster.call(TXN, request)
    await cluster.close()


def refusal(text: str) -> str:
    with pytest.raises(StorageUnavailable) as caught:
        asyncio.run(use(text))
    return str(caught.value)


def test_a_store_goes_on_from_its_revision_when_it_is_opened_again(address: str) -> None:
    assert [asyncio.run(use(address)) for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]


def test_a_store_may_begin_at_a_revision_that_its_cluster_has_not_reached(address: str) -> None:
    assert asyncio.run(use(address, shift=1_000_000_000)) == (1_000_000_000, 1_000_000_001)
    assert asyncio.run(use(address)) == (1_000_000_001, 1_000_000_002)

    async def look() -> Opened:
        cluster = Cluster(parse_address(address))
        opened = await open_store(cluster)
        await cluster.close()
        return opened

    assert asyncio.run(look()).compacted == 1_000_000_000


def test_endpoints_where_nothing_listens_are_refused() -> None:
    (port,) = free_ports(1)
    text = refusal(f"etcd://127.0.0.1:{port}?timeout=1")
    assert f"no member of etcd answers: 127.0.0.1:{port}: " in text
    assert "Connection refused" in text


@pytest.mark.parametrize(
    ("content", "owner"),
    [
        (b"k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Pod", "objects that kube-apiserver wrote"),
        (b'{"kind":"Widget","apiVersion":"example.com/v1"}', "objects that kube-apiserver wrote"),
        (b"k8s:enc:aescbc:v1:key1:x", "objects that kube-apiserver wrote"),
        (b"anything", "data that Kapi did not write"),
    ],
)
def test_a_prefix_with_data_of_another_program_is_refused(address: str, content: bytes, owner: str) -> None:
    prefix = parse_address(address).prefix
    asyncio.run(put(address, f"{prefix}/registry/pods/default/a", content))
    text = refusal(address)
    assert f"etcd has {owner} below {prefix}, such as {prefix}/registry/pods/default/a; choose another prefix" in text


def test_the_store_of_a_running_kube_apiserver_is_refused_and_left_as_it_is(etcd: EtcdCluster, tmp_path: Path) -> None:
    found, reason = kube_apiserver.find()
    if found is None:
        pytest.skip(f"no real API server to test against: {reason}")
    (port,) = free_ports(1)
    pairs = kube_apiserver.certificates(tmp_path / "pki")
    admin = pairs["admin"]
    address = Address(HOST, port, str(pairs["ca"].certificate), str(admin.certificate), str(admin.key))
    program = found.etcd.parent / "kube-apiserver"
    command = kube_apiserver.apiserver_command(program, tmp_path, pairs, etcd.members[0].client_port, port)
    server = Process([*command, *found.admission], tmp_path / "kube-apiserver.log")
    try:
        wait_ready(address, [server])
        text = refusal(f"etcd://{etcd.endpoints}/registry?timeout=60")
        wait_ready(address, [server])
    finally:
        server.stop()
    assert text.startswith("etcd has objects that kube-apiserver wrote below /registry, such as /registry/")


def test_data_next_to_the_prefix_is_no_reason(address: str) -> None:
    prefix = parse_address(address).prefix
    for neighbour in (f"{prefix}0", f"{prefix}-other/a", prefix):
        asyncio.run(put(address, neighbour, b"k8s\x00"))
    assert asyncio.run(use(address)) == (0, 1)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"format":2}', "has format 2, which another version of Kapi wrote; this version reads format 1"),
        (b"mine", "was not written by Kapi; choose another prefix"),
    ],
)
def test_a_store_of_another_version_is_refused(address: str, content: bytes, why: str) -> None:
    asyncio.run(put(address, f"{parse_address(address).prefix}.format", content))
    assert why in refusal(address)


def test_a_refusal_is_one_line_and_exit_status_1(address: str, tmp_path: Path) -> None:
    asyncio.run(put(address, f"{parse_address(address).prefix}.format", b'{"format":2}'))
    done = subprocess.run(
        [KAPI, "up", "--data-dir", tmp_path, "--bind", "127.0.0.1:0", "--storage", address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done
    assert done.stderr.startswith("kapi: the store at /opening/")
    assert done.stderr.count("\n") == 1


# -- TLS and users


@dataclass
class Secured:
    """A cluster that wants certificates."""

    cluster: EtcdCluster
    folder: Path

    def address(self, prefix: str = "/kapi", **files: str) -> str:
        parameters = {"cacert": "ca.crt", "cert": "client.crt", "key": "client.key", "timeout": "2", **files}
        given = "&".join(
            f"{name}={text if name in ('user', 'timeout') else self.folder / text}"
            for name, text in parameters.items()
            if text
        )
        return f"etcd://{self.cluster.endpoints}{prefix}?{given}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    peer(PROGRAM, "etcd")
    folder = tmp_path_factory.mktemp("pki")
    authority, other = new_authority(), new_authority("other-ca")
    (folder / "ca.crt").write_bytes(authority.pem)
    (folder / "other.crt").write_bytes(other.pem)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    served = authority.issue("etcd", usages=usages, more=[(names, False)]).write(folder, "etcd")
    authority.issue("kapi").write(folder, "client")
    other.issue("stranger").write(folder, "stranger")
    options = ("--client-cert-auth", "--trusted-ca-file", str(folder / "ca.crt"))
    options += ("--cert-file", str(served.certificate), "--key-file", str(served.key))
    cluster = EtcdCluster(1, options, scheme="https").start()
    yield Secured(cluster, folder)
    cluster.close()


def test_a_store_is_reached_with_a_client_certificate(secured: Secured) -> None:
    assert asyncio.run(use(secured.address("/tls", timeout="60"))) == (0, 1)


@pytest.mark.parametrize(
    "files",
    [
        {"cacert": "other.crt"},
        {"cert": "", "key": ""},
        {"cert": "stranger.crt", "key": "stranger.key"},
        {"cacert": "", "cert": "", "key": ""},
    ],
    ids=["another authority", "no certificate", "a certificate of another authority", "no TLS"],
)
def test_wrong_certificates_are_refused(secured: Secured, files: dict[str, str]) -> None:
    text = refusal(secured.address("/tls", **files))
    assert text.startswith(f"no member of etcd answers: {secured.cluster.endpoints}: ")
    assert "\n" not in text


def test_a_file_that_is_not_there_is_named(secured: Secured) -> None:
    assert refusal(secured.address(cacert="absent.crt")) == (
        f"{secured.folder}/absent.crt: No such file or directory; the address of the etcd store names it"
    )


def _texts(*parts: str) -> bytes:
    """A message whose fields 1, 2, … are texts."""
    return b"".join(messages._bytes(number, part.encode()) for number, part in enumerate(parts, 1))


async def _enable_users(address: str) -> None:
    cluster = Cluster(parse_address(address))
    permission = messages._number(1, 2) + messages._bytes(2, b"/users") + messages._bytes(3, b"/usert")
    for method, request in (
        ("UserAdd", _texts("root", "root")),
        ("UserGrantRole", _texts("root", "root")),
        ("UserAdd", _texts("kapi", "secret")),
        ("UserAdd", _texts("poor", "secret")),
        ("RoleAdd", _texts("writer")),
        ("RoleGrantPermission", _texts("writer") + messages._bytes(2, permission)),
        ("UserGrantRole", _texts("kapi", "writer")),
        ("AuthEnable", b""),
    ):
        if method == "UserGrantRole" and b"root" in request:
            await cluster.call("/etcdserverpb.Auth/RoleAdd", _texts("root"))
        await cluster.call(f"/etcdserverpb.Auth/{method}", request)
    await cluster.close()


def test_users_of_etcd(tmp_path: Path) -> None:
    cluster = EtcdCluster().start()
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "wrong").write_text("guess")

    def address(user: str, file: str, prefix: str = "/users") -> str:
        return f"etcd://{cluster.endpoints}{prefix}?timeout=60&user={user}&password-file={tmp_path / file}"

    async def forget_the_token() -> None:
        store = await EtcdStorage.open(parse_address(address("kapi", "password")))
        # As after etcd has restarted: neither calls nor the watch, which is opened again, are known any more.
        store.cluster.metadata = (("hasleader", "true"), ("token", "forgotten.1"))
        store.cluster.moved.set()
        results = await asyncio.gather(*(store.put(f"/{number}", value(), 0) for number in range(5)))
        assert len(set(results)) == 5
        # The watch alone.
        store.cluster.metadata = (("hasleader", "true"), ("token", "forgotten.2"))
        resumptions = store.live.resumptions
        store.cluster.moved.set()
        while store.live.resumptions < resumptions + 2 or store.live.interruption:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.wait_for(store.put("/last", value(), 0), 60)
        await store.close()

    try:
        asyncio.run(_enable_users(f"etcd://{cluster.endpoints}?timeout=60"))
        assert asyncio.run(use(address("kapi", "password"))) == (0, 1)
        asyncio.run(forget_the_token())
        assert "etcd refuses the user of the address" in refusal(address("kapi", "wrong"))
        assert "etcd refuses the user of the address" in refusal(f"etcd://{cluster.endpoints}/users?timeout=60")
        assert "does not permit the user to read and write below /users" in refusal(address("poor", "password"))
        assert "does not permit the user to read and write below /other" in refusal(
            address("kapi", "password", "/other")
        )
    finally:
        cluster.close()


async def one_after_another(writes: Iterable[Awaitable[int]]) -> None:
    for write in writes:
        await write


def test_a_full_etcd_refuses_writes_and_says_so(tmp_path: Path) -> None:
    cluster = EtcdCluster(1, ("--quota-backend-bytes", str(4 << 20))).start()

    async def scenario() -> None:
        store = await EtcdStorage.open(parse_address(f"etcd://{cluster.endpoints}?timeout=60"))
        monitor = EtcdMonitor(store)
        writes = (store.put(f"/{number}", Draft(b"x" * 500_000, b""), 0) for number in range(40))
        with pytest.raises(StorageUnreachable, match="etcd is full"):
            await one_after_another(writes)
        await monitor.step()
        assert "NOSPACE" in (monitor.check() or "")
        assert (await store.range("/", limit=1)).entries
        await store.close()

    try:
        asyncio.run(scenario())
    finally:
        cluster.close()
