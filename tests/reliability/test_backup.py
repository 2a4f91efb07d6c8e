"""Backups of a running server: each one is the store at one revision, and a restored store gives out no revision again.

The long form is `KAPI_BACKUPS=100 pytest -s tests/reliability/test_backup.py`.
"""

import asyncio
import os
import random

import pytest
from live_server import Line, LiveServer
from recorded_load import PREFIX, Recorder, prepare, read_log

from kapi.cli.main import run
from kapi.codec import json
from kapi.storage.snapshot.file import read_snapshot, verify_snapshot

BACKUPS = int(os.environ.get("KAPI_BACKUPS", "4"))
WRITERS = 4
BETWEEN = 25
"""Acknowledged writes between two backups, at least."""


async def _write(server, recorder, number):
    random_source = random.Random(number)
    line = await Line.open(server)
    try:
        while not recorder.is_over:
            await recorder.anything(line, random_source)
    finally:
        line.close()


def _acknowledged(recorder):
    return max((op.revision for op in recorder.operations if op.outcome == "ok"), default=0)


async def _load(server, recorder, files):
    """Take backups while clients write; returns the last revision that was acknowledged before each."""
    await prepare(server)
    writers = [asyncio.ensure_future(_write(server, recorder, number)) for number in range(WRITERS)]
    acknowledged = []
    for file in files:
        enough = recorder.acknowledged + BETWEEN
        while recorder.acknowledged < enough:
            recorder.progress.clear()
            await asyncio.wait_for(recorder.progress.wait(), 60)
        acknowledged.append(_acknowledged(recorder))
        assert await asyncio.to_thread(run, ["store", "snapshot", str(server.directory), str(file)]) == 0
    recorder.is_over = True
    await asyncio.gather(*writers)
    return acknowledged


def _state_at(log, revision):
    state = {}
    for commit in log:
        if commit.revision <= revision:
            state[commit.key] = commit
    return {key: (commit.revision, commit.value) for key, commit in state.items() if commit.value is not None}


def _content(file):
    """The objects of the load in a snapshot."""
    found = {}
    for record in read_snapshot(file):
        if record.key.startswith(PREFIX):
            value = json.decode(record.draft.render(record.revision))
            found[record.key.removeprefix(PREFIX)] = (record.revision, value["data"]["v"])
    return found


async def _objects(server):
    line = await Line.open(server)
    try:
        reply = await line.request("GET", "/api/v1/namespaces/load/configmaps")
    finally:
        line.close()
    return {
        item["metadata"]["name"]: (int(item["metadata"]["resourceVersion"]), item["data"]["v"])
        for item in reply.json["items"]
    }


@pytest.mark.slow
def test_every_backup_of_a_running_server_is_one_revision_of_its_store(tmp_path):
    recorder = Recorder(30)
    files = [tmp_path / f"backup-{number}" for number in range(BACKUPS)]
    with LiveServer(tmp_path / "data") as server:
        acknowledged = asyncio.run(_load(server, recorder, files))
        server.terminate()
        assert server.wait() == 0
    log = read_log(server.directory)
    revisions = [verify_snapshot(file).header.revision for file in files]
    print(f"\n{len(files)} backups at revisions {revisions} during {recorder.acknowledged} writes")
    for file, revision, before in zip(files, revisions, acknowledged, strict=True):
        assert revision >= before, "an acknowledged write is not in the backup"
        assert _content(file) == _state_at(log, revision)
    # The control: the content of one revision under the name of another is noticed.
    assert _content(files[-1]) != _state_at(log, revisions[0])

    target = tmp_path / "restored"
    assert run(["store", "restore", str(files[-1]), str(target)]) == 0
    with LiveServer(target) as restored:
        moved = {key: (revision + 10**9, value) for key, (revision, value) in _content(files[-1]).items()}
        assert asyncio.run(_objects(restored)) == moved
        assert min(revision for revision, _ in moved.values()) > log[-1].revision
