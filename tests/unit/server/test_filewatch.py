"""Files that are re-read when they change."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from kapi.server.filewatch import FileWatch
from virtual_time import run


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def files(registry):
    return FileWatch(registry)


def reloads(registry, status):
    return registry.get_sample_value("kapi_file_reloads_total", {"file": "tokens", "status": status})


def test_changed_file_is_read_once_per_change(tmp_path, files, registry):
    path, other, read = tmp_path / "a", tmp_path / "b", []
    path.write_text("1")
    files.add("tokens", [path, other], lambda: read.append(path.read_text()))
    files.check()
    assert read == []
    path.write_text("22")
    files.check()
    files.check()
    assert read == ["22"]
    other.write_text("a file that was not there")
    files.check()
    assert read == ["22", "22"]
    assert reloads(registry, "success") == 2


def test_replaced_link_is_a_change(tmp_path, files):
    for version in ("1", "2"):
        (tmp_path / version).write_text("x")
    link, read = tmp_path / "link", []
    link.symlink_to("1")
    files.add("tokens", [link], lambda: read.append(1))
    link.unlink()
    link.symlink_to("2")
    files.check()
    assert read == [1]


def test_bad_file_is_reported_and_tried_again_when_it_changes(tmp_path, files, registry, capfd):
    path, read = tmp_path / "a", []
    path.write_text("1")

    def reload():
        read.append(path.read_text())
        if read[-1] == "bad":
            raise ValueError("line 1: no")

    files.add("tokens", [path], reload)
    path.write_text("bad")
    files.check()
    path.unlink()
    files.check()
    path.write_text("good")
    files.check()
    assert read == ["bad", "good"]
    assert (reloads(registry, "failure"), reloads(registry, "success")) == (2, 1)


def test_changes_are_looked_for_all_the_time(tmp_path, files):
    path, changed = tmp_path / "a", asyncio.Event()
    path.write_text("1")

    async def main():
        files.add("tokens", [path], changed.set)
        task = asyncio.create_task(files.run())
        path.write_text("22")
        await changed.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
