"""A control plane to run commands against, and ways to run them."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kapi
from kapi.cli.main import app
from live_plane import NO_MAPS, live_plane

_number = itertools.count()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    """The admin's kubeconfig of a running control plane."""
    with live_plane(tmp_path_factory.mktemp("cli"), NO_MAPS) as path:
        yield path


class Kapi:
    """Runs `kapi` in this process, in a namespace of the test's own; `out`, `err` and `code` are of the last run."""

    def __init__(self, kubeconfig, folder):
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.namespace = f"cli-{next(_number)}"
        self.out = self.err = ""
        self.code = 0
        self._started = []

    def __call__(self, *arguments, stdin=None, namespace=True):
        inside = ["-n", self.namespace] if namespace else []
        result = CliRunner().invoke(app, [*map(str, arguments), *inside], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        self.out, self.err, self.code = result.stdout, result.stderr, result.exit_code
        return self.out

    def fails(self, *arguments, **options):
        """Run something that must fail with 1; what it says."""
        self(*arguments, **options)
        assert self.code == 1, self.out
        return self.err

    def file(self, text, name="manifest.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def process(self, *arguments):
        """The same as a process of its own, started and left running."""
        command = [sys.executable, "-c", "from kapi.cli.main import main; main()", *map(str, arguments)]
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(kapi.__file__).parents[1]),
            "KUBECONFIG": str(self.kubeconfig),
        }
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Started in the background of a shell: what we start would inherit that nobody can interrupt it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, **pipes, text=True, env=environment)
        self._started.append(process)
        return process

    def stop(self):
        """End what is still running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture
def run(kubeconfig, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    kapi = Kapi(kubeconfig, tmp_path)
    manifest = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {kapi.namespace}}}\n"
    assert kapi("create", "-f", "-", stdin=manifest, namespace=False) == f"namespace/{kapi.namespace} created\n"
    yield kapi
    kapi.stop()
