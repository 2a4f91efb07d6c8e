"""A control plane whose store is damaged: it says so while it runs, serves what it has in memory, and does not start again."""

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys

import pytest

from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.options import Options
from kapi.storage.interface import StorageUnavailable
from kapi.storage.sqlite.scrub import Scrub

MAPS = "/api/v1/namespaces/default/configmaps"
TEXT = "x" * 20_000
"""Most of it is on pages of its own, which no later write changes."""


@contextlib.asynccontextmanager
async def running(path):
    plane = ControlPlane(Options(data_dir=path, port=0, controllers=()))
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


async def ask(plane, path, method="GET", body=None):
    data = b"" if body is None else json.dumps(body).encode()
    reply = await plane.transport.request(method, path, {"content-type": "application/json"}, data)
    return reply.status, (await reply.read()).decode()


async def write_map(path):
    async with running(path) as plane:
        status, _ = await ask(plane, MAPS, "POST", {"metadata": {"name": "m"}, "data": {"k": TEXT}})
        assert status == 201
        assert await ask(plane, "/readyz") == (200, "ok")
        assert await ask(plane, "/readyz/store-integrity") == (200, "ok")


def damage(path):
    database = path / "kapi.db"
    with database.open("r+b") as file:
        file.seek(database.read_bytes().rindex(b"x" * 4000))
        file.write(b"A")


def test_damage_is_reported_while_the_object_is_served_from_memory(tmp_path):
    path = tmp_path / "data"

    async def main():
        await write_map(path)
        async with running(path) as plane:
            damage(path)
            # The pass of the server itself may be over; the next one is in an hour.
            scrub = Scrub(plane._storage, plane.clock)
            while not scrub.passes:
                await scrub.step()
            status, text = await ask(plane, "/readyz/store-integrity")
            assert status == 500
            assert "key /registry/core/configmaps/default/m: the row does not match its checksum" in text
            assert (await ask(plane, "/readyz"))[0] == 500
            assert (await ask(plane, "/livez"))[0] == 200
            assert "kapi_storage_damages 1.0" in (await ask(plane, "/metrics"))[1]
            status, text = await ask(plane, f"{MAPS}/m")
            assert (status, json.loads(text)["data"]) == (200, {"k": TEXT})
        with pytest.raises(StorageUnavailable, match="key /registry/core/configmaps/default/m"):
            async with running(path):
                pass

    asyncio.run(main())


def test_a_start_on_a_damaged_store_ends_with_a_plain_message(tmp_path):
    path = tmp_path / "data"
    asyncio.run(write_map(path))
    damage(path)
    command = [sys.executable, "-m", "kapi.cli.main"]
    done = subprocess.run(
        [*command, "up", "--data-dir", str(path), "--bind", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"kapi: the store in {path} is damaged and is not served:\n  kapi.db, row ")
    assert "Traceback" not in done.stderr
    assert f"kapi store repair {path}" in done.stderr


def test_a_control_plane_whose_data_directory_is_deleted_is_not_ready_and_ends(tmp_path):
    path = tmp_path / "data"

    async def main():
        async with running(path) as plane:
            shutil.rmtree(path)
            await asyncio.wait_for(asyncio.shield(plane.failed), 60)
            status, text = await ask(plane, "/readyz/etcd")
            assert status == 500
            assert "was deleted while the store was open" in text
            status, _ = await ask(plane, MAPS, "POST", {"metadata": {"name": "m"}})
            assert status == 503

    asyncio.run(main())
