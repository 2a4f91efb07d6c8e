"""A control plane to run commands against, and ways to run them."""

import contextlib
import io
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kapi
from kapi.cli.main import run as run_program
from live_plane import NO_MAPS, live_plane

_number = itertools.count()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    """The admin's kubeconfig of a running control plane."""
    with live_plane(tmp_path_factory.mktemp("cli"), NO_MAPS) as path:
        yield path


def run_kapi(*arguments, stdin=None):
    """Run `kapi` in this process; returns standard output, standard error and the exit status."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((stdin or "").encode())))
        try:
            code = run_program([*map(str, arguments)])
        except SystemExit as end:
            code = end.code
    return out.getvalue(), err.getvalue(), code


@pytest.fixture(name="run_kapi")
def _run_kapi():
    return run_kapi


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
        self.out, self.err, self.code = run_kapi(*arguments, *inside, stdin=stdin)
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
            # Started in the background of a shell, which ignores SIGINT: the child process would inherit that.
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
