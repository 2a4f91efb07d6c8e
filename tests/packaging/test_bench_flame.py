"""Flame graphs of the benchmark: samples are joined, counted and drawn as they were taken."""

import pathlib
import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from bench import flame
from bench.client import LoadError
from bench.packages import install

FOLDED = [
    "main (kapi/cli/main.py:3);run (asyncio/runners.py:118);serve (kapi/server/pipeline.py:10) 60",
    "main (kapi/cli/main.py:3);run (asyncio/runners.py:118);serve (kapi/server/pipeline.py:12);dumps (json/a.py:1) 20",
    "main (kapi/cli/main.py:3);run (asyncio/runners.py:118) 15",
    "write <x> (kapi/storage/sqlite/writer.py:7) 5",
]


def test_samples_of_one_function_count_together_whatever_their_line():
    samples = flame.stacks(FOLDED)
    assert sum(samples.values()) == 100
    root = flame.tree(samples)
    serve = root.children["main (kapi/cli/main.py)"].children["run (asyncio/runners.py)"].children
    assert [(node.name, node.count) for node in serve.values()] == [("serve (kapi/server/pipeline.py)", 80)]


def test_time_in_a_library_counts_for_the_package_that_called_it():
    shares = flame.packages(flame.stacks(FOLDED))
    assert shares == [("kapi.server", 0.8), ("the event loop", 0.15), ("kapi.storage.sqlite", 0.05)]


def test_boxes_are_as_wide_as_their_share_and_lie_on_their_caller():
    drawn = ET.fromstring(flame.svg(flame.tree(flame.stacks(FOLDED)), "a <title>"))
    space = "{http://www.w3.org/2000/svg}"
    boxes = {}
    for group in drawn.iter(f"{space}g"):
        rect = group.find(f"{space}rect")
        boxes[group.findtext(f"{space}title")] = [float(rect.get(name)) for name in ("x", "y", "width")]
    whole, serve = boxes["all 100.0%"], boxes["serve (kapi/server/pipeline.py) 80.0%"]
    run, write = boxes["run (asyncio/runners.py) 95.0%"], boxes["write <x> (kapi/storage/sqlite/writer.py) 5.0%"]
    assert whole[2] == pytest.approx(flame.WIDTH, abs=1)
    assert serve[2] == pytest.approx(0.8 * flame.WIDTH, abs=1)
    assert serve[1] == run[1] - flame.HEIGHT
    assert serve[0] >= run[0]
    assert write[0] == pytest.approx(0.95 * flame.WIDTH, abs=1)
    assert drawn.findtext(f"{space}text") == "a <title>"


def test_a_package_that_works_is_not_installed_again(tmp_path):
    python = pathlib.Path(sys.executable)
    assert install(python, ["no-such-package"], ["-c", "import json"]) == ""
    assert "cannot be installed" in install(_refusing(tmp_path), ["no-such-package"], ["-c", "import no_such_module"])


def _refusing(folder):
    python = folder / "python"
    python.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    python.chmod(0o755)
    return python


def test_what_cannot_be_a_folder_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(flame, "install", lambda *_: "")
    (tmp_path / "file").touch()
    assert flame.run(SimpleNamespace(flame=tmp_path / "file"), None, tmp_path) == 1
    assert f"--flame: {tmp_path / 'file'} cannot be a folder: File exists" in capsys.readouterr().err


def test_a_profiler_that_takes_no_samples_is_told(tmp_path):
    spy = tmp_path / "spy"
    spy.write_text("#!/bin/sh\necho no permission\n")
    spy.chmod(0o755)
    bench = SimpleNamespace(folder=tmp_path, work=lambda *_, **__: None)
    running = SimpleNamespace(processes=[SimpleNamespace(pid=1)])
    with pytest.raises(LoadError, match=r"^py-spy took no samples"):
        flame._sample(bench, running, flame.ROWS["get"], spy, 0.0)
