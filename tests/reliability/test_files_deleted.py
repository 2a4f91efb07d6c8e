"""The data directory is deleted under a server that is being written to: it stops acknowledging and exits non-zero."""

import asyncio
import shutil

import pytest
from live_server import Disconnected, Line, LiveServer
from recorded_load import PATH, prepare

pytestmark = pytest.mark.slow


async def _write_until_refused(server):
    line = await Line.open(server)
    await asyncio.to_thread(shutil.rmtree, server.directory)
    answers = []
    try:
        # A server that never notices answers for ever; this many take far longer than the second it may need.
        for number in range(200_000):
            reply = await line.request("POST", PATH, {"metadata": {"name": f"m-{number}"}})
            answers.append(reply.status)
            if reply.status != 201:
                answers.append((await line.request("GET", "/readyz")).status)
                return answers
    except Disconnected:
        return answers
    finally:
        line.close()
    return answers


def test_a_server_whose_data_directory_is_deleted_stops_acknowledging_and_exits(tmp_path):
    with LiveServer(tmp_path / "data") as server:
        asyncio.run(prepare(server))
        answers = asyncio.run(_write_until_refused(server))
        assert set(answers) - {201} <= {500, 503}
        assert server.wait() == 1
        assert "was deleted while the store was open" in server.log
        assert "storage failed, refusing writes" in server.log
