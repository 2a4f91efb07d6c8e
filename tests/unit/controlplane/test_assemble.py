"""The control plane put together: it starts whole, survives a restart, and stops in order."""

import asyncio
import importlib
import json
import ssl
import subprocess
import sys
import threading

import pytest

from kapi.base.tls import KeyPair, client_context
from kapi.controlplane import assemble
from kapi.controlplane.assemble import ControlPlane, serve
from kapi.controlplane.controllers.controllerset import ControllerSet
from kapi.controlplane.options import Options
from kapi.storage.interface import StorageFailed, StorageUnavailable

CM = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("plane") / "data"


def _options(data, **more):
    return Options(data_dir=data, port=0, **{"storage": "memory", **more})


async def _ask(plane, method, path, body=b""):
    reply = await plane.transport.request(method, path, {"content-type": "application/json"}, body)
    return reply.status, await reply.read()


async def _get_over_tls(plane, path, context):
    host, port = plane.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]), answer.partition(b"\r\n\r\n")[2]


def test_started_control_plane_serves_and_has_its_objects(data):
    async def main():
        plane = ControlPlane(_options(data))
        try:
            await plane.start()
            status, body = await _ask(plane, "GET", "/api/v1/namespaces")
            assert status == 200
            assert len(json.loads(body)["items"]) == 4
            assert plane.options.kubeconfig_path.stat().st_mode & 0o777 == 0o600
            pki = data / "pki"
            admin = client_context(pki / "ca.crt", files=KeyPair(pki / "admin.crt", pki / "admin.key"))
            assert (await _get_over_tls(plane, CM, admin))[0] == 200
            nobody = ssl.create_default_context(cafile=str(pki / "ca.crt"))
            assert (await _get_over_tls(plane, CM, nobody))[0] == 403
            assert await _get_over_tls(plane, "/readyz", nobody) == (200, b"ok")
        finally:
            await plane.stop()

    asyncio.run(main())


def test_what_was_written_is_there_after_a_restart(tmp_path):
    async def one_run(work):
        plane = ControlPlane(_options(tmp_path / "data", storage="sqlite"))
        try:
            await plane.start()
            return await work(plane)
        finally:
            await plane.stop()

    async def write(plane):
        return await _ask(plane, "POST", CM, b'{"metadata":{"name":"a"},"data":{"k":"v"}}')

    async def read(plane):
        return await _ask(plane, "GET", f"{CM}/a")

    assert asyncio.run(one_run(write))[0] == 201
    status, body = asyncio.run(one_run(read))
    assert (status, json.loads(body)["data"]) == (200, {"k": "v"})


def test_directory_in_use_is_refused(tmp_path):
    async def main():
        first = ControlPlane(_options(tmp_path / "data", storage="sqlite"))
        second = ControlPlane(_options(tmp_path / "data", storage="sqlite"))
        try:
            await first.start()
            with pytest.raises(StorageUnavailable):
                await second.start()
        finally:
            await second.stop()
            await first.stop()

    asyncio.run(main())


def test_port_in_use_is_refused_and_nothing_is_left(data):
    async def main():
        first = ControlPlane(_options(data))
        await first.start()
        port = int(first.url.rpartition(":")[2])
        second = ControlPlane(Options(data_dir=data, port=port, storage="memory"))
        try:
            with pytest.raises(OSError, match="in use"):
                await second.start()
        finally:
            await second.stop()
            await first.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_serving_ends_cleanly_when_told(data):
    async def main():
        stop, started = asyncio.Event(), []

        def ready(plane):
            started.append(plane.url)
            stop.set()

        assert await serve(_options(data), stop, ready) == 0
        assert started[0].startswith("https://127.0.0.1:")

    asyncio.run(main())


def test_serving_ends_with_a_failure_when_the_store_fails(data):
    async def main():
        planes = []

        def ready(plane):
            planes.append(plane)
            plane._storage.on_failure(StorageFailed("the disk is gone"))

        assert await serve(_options(data), asyncio.Event(), ready) == 1
        assert not planes[0].health.ready

    asyncio.run(main())


def test_watches_end_when_the_server_stops(data):
    async def main():
        plane = ControlPlane(_options(data))
        await plane.start()
        watch = await plane.transport.request("GET", f"{PODS}?watch=1")
        reading = asyncio.ensure_future(watch.read())
        await asyncio.sleep(0)
        await plane.stop()
        assert await reading == b""

    asyncio.run(main())


def test_the_store_is_closed_after_the_controllers_have_ended(data, monkeypatch):
    started, may_end, imported = asyncio.Event(), asyncio.Event(), threading.Event()
    order = []

    async def run(controllers):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            order.append("controllers")

    def slow_import(name):
        # What is imported after the start is still being imported when the server is stopped.
        if name == "kapi.schema.rules.checks":
            imported.wait(30)
        return real_import(name)

    async def main():
        plane = ControlPlane(_options(data))
        await plane.start()
        await started.wait()
        close = plane._storage.close
        monkeypatch.setattr(plane._storage, "close", lambda: (order.append("store"), close())[1])
        stopping = asyncio.ensure_future(plane.stop())
        for _ in range(20):
            await asyncio.sleep(0)
        may_end.set()
        await stopping
        imported.set()

    real_import = importlib.import_module
    monkeypatch.setattr(ControllerSet, "run", run)
    monkeypatch.setattr(assemble.importlib, "import_module", slow_import)
    asyncio.run(main())
    assert order == ["controllers", "store"]


def test_stopping_server_is_not_ready_but_alive(data):
    async def main():
        plane = ControlPlane(_options(data))
        await plane.start()
        plane._stopping = True
        assert (await _ask(plane, "GET", "/readyz"))[0] == 500
        assert (await _ask(plane, "GET", "/livez"))[0] == 200
        await plane.stop()

    asyncio.run(main())


def test_server_is_not_ready_before_its_objects_exist(data, monkeypatch):
    seen = []

    async def slow_objects(transport, port, service_cidrs, **more):
        reply = await transport.request("GET", "/readyz")
        seen.append((reply.status, await reply.read()))

    async def main():
        monkeypatch.setattr(assemble.bootstrap, "ensure_objects", slow_objects)
        plane = ControlPlane(_options(data))
        try:
            await plane.start()
        finally:
            await plane.stop()

    asyncio.run(main())
    assert seen[0][0] == 500


def test_a_server_that_starts_imports_neither_the_framework_nor_an_http_client():
    program = (
        "import sys, kapi.controlplane.assemble; "
        "print([name for name in ('aiohttp', 'jwt', 'kapi.client', 'kapi.controller') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
