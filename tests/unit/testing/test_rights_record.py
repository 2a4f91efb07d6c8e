"""The record of rights: `pytest --kapi-requests=FILE`."""

import asyncio
import os
import subprocess
import sys

from sample_operator import Site, site, sites

from kapi.scaffold.rbac import read_requests
from kapi.testing import Environment
from kapi.testing.rights import VARIABLE

TESTS = """
import pytest
from kapi.testing.rights import RightsRecord
from kapi.testing.target import Target


@pytest.mark.parametrize("number", range(4))
def test_a_manager_asks(number):
    record = RightsRecord()
    record.add("manager", Target("get", "", f"resources{number}"), 200)
    record.write()
"""


def recorded(path):
    return {(one.right.verb, one.right.resource, one.name) for one in read_requests(path.read_bytes())}


def test_the_rights_that_managers_needed_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "requests"))

    async def main():
        async with Environment(crds=[Site], time="virtual") as env:
            manager = env.manager()
            sites(manager)
            async with env.run(manager):
                await env.client.create(site("a"))
                await env.settled()
                env.history.clear()  # what was asked stays asked

    asyncio.run(main())
    found = recorded(tmp_path / "requests")
    assert ("watch", "sites", "") in found
    assert ("patch", "sites/status", "a") in found
    # An apply that creates needs both rights; the admin's own create of the Site is not the manager's.
    assert {("patch", "configmaps", "a"), ("create", "configmaps", "")} <= found
    assert not any(verb == "create" and resource == "sites" for verb, resource, _ in found)


def test_nothing_is_recorded_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)

    async def main():
        async with Environment(crds=[Site], time="virtual") as env:
            manager = env.manager()
            sites(manager)
            async with env.run(manager):
                await env.client.create(site("a"))
                await env.settled()
            assert env.history.rights._rights == set()

    asyncio.run(main())


def test_the_processes_of_pytest_write_one_new_record(tmp_path):
    (tmp_path / "test_managers.py").write_text(TESTS)
    record = tmp_path / "build" / "requests.jsonl"
    record.parent.mkdir()
    record.write_text("of an earlier run\n")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "KAPI"))}
    plugins = ("-p", "kapi.testing.pytest_plugin", "-p", "no:cacheprovider", "-p", "xdist.plugin", "-n", "2")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "--kapi-requests=build/requests.jsonl", "--rootdir=.", "."],
        cwd=tmp_path,
        env={**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert recorded(record) == {("get", f"resources{number}", "") for number in range(4)}
