"""`kapi dev`: a project's kinds, samples and operator on a control plane that exists as long as the command."""

import asyncio
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time

import pytest

PROJECT = """
from kapi import CustomResource, Manager, Model, resource
from other import Other

class GreetingSpec(Model):
    whom: str

class GreetingStatus(Model):
    text: str = ""

@resource("example.com/v1")
class Greeting(CustomResource, kw_only=True):
    spec: GreetingSpec
    status: GreetingStatus | None = None

def setup(manager: Manager) -> None:
    recorder = manager.recorder("example.com/greetings")

    async def reconcile(greeting: Greeting) -> None:
        text = f"hello, {greeting.spec.whom}"
        if greeting.status is None or greeting.status.text != text:
            greeting.status = GreetingStatus(text=text)
            await manager.client.update_status(greeting)
            recorder.normal(greeting, "Greeted", text)

    manager.builder().for_(Greeting).complete(reconcile)
"""
OTHER = """
from kapi import CustomResource, resource

@resource("example.com/v1")
class Other(CustomResource):
    pass
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: papers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Paper, plural: papers}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
SAMPLES = """
apiVersion: example.com/v1
kind: Greeting
metadata: {name: world}
spec: {whom: world}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
"""
PAPER = """
apiVersion: example.com/v1
kind: Paper
metadata: {name: written}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "config" / "crd").mkdir(parents=True)
    (tmp_path / "config" / "samples").mkdir()
    (tmp_path / "greetings").mkdir()
    (tmp_path / "greetings" / "manager.py").write_text(PROJECT.replace("other", "greetings.other"))
    (tmp_path / "greetings" / "other.py").write_text(OTHER)
    (tmp_path / "PROJECT").write_text("layout: '1'\nname: greetings\npackage: greetings\ndomain: example.com\n")
    (tmp_path / "config" / "crd" / "papers.yaml").write_text(CRD)
    (tmp_path / "config" / "samples" / "greeting.yaml").write_text(SAMPLES)
    kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [greeting.yaml]\n"
    (tmp_path / "config" / "samples" / "kustomization.yaml").write_text(kustomization)
    return tmp_path


class Dev:
    """A running `kapi dev`, and the lines it prints."""

    def __init__(self, process):
        self.process = process
        self.folder = None

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, project, *options):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kapi", "dev", *options),
            cwd=project,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(90):
                dev = cls(process)
                first = await dev.line("dev        Control plane at https://127.0.0.1:")
                dev.folder = pathlib.Path(re.search("KUBECONFIG=(.*)/admin.kubeconfig", first)[1])
                assert dev.folder.is_dir()
                yield dev
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def line(self, *starts):
        """Read until there was a line for each of these starts, in any order; returns the last one."""
        seen, missing = [], set(starts)
        while line := (await self.process.stdout.readline()).decode():
            seen.append(line)
            missing -= {start for start in missing if line.startswith(start)}
            if not missing:
                return line
            if "waiting for a change" in line:
                break
        raise AssertionError(f"no line {missing} in\n{''.join(seen)}")

    async def end(self):
        """Read until every process that writes has ended; returns the exit status."""
        await self.process.stdout.read()
        return await self.process.wait()


@pytest.mark.slow
def test_samples_are_reconciled_once_and_everything_is_deleted(project):
    async def main():
        async with Dev.running(project, "--samples", "--once") as dev:
            await dev.line("reconcile  greeting default/world  ok  ")
            await dev.line("dev        every object is reconciled")
            assert await dev.end() == 0
            assert not dev.folder.exists()

    asyncio.run(main())


@pytest.mark.slow
def test_a_change_of_class_and_reconciler_is_in_force_and_objects_stay(project):
    async def main():
        module = project / "greetings" / "manager.py"
        (project / "config" / "samples" / "paper.yaml").write_text(PAPER)
        async with Dev.running(project, "--samples", "--plain") as dev:
            await dev.line(
                "event      Greeting default/world  Normal Greeted: hello, world",
                # The kind of the manifest has no class, and no controller: it is defined and shown all the same.
                "object     Paper default/written",
            )
            changed = module.read_text().replace("hello, {greeting.spec.whom}", "{greeting.spec.word}, you")
            module.write_text(changed.replace("whom: str", 'whom: str\n    word: str = "good morning"'))
            await dev.line("dev        greetings/manager.py changed; restarting")
            # The definition is new, too: its default is there.
            await dev.line("object     Greeting default/world  text=good morning, you")
            dev.process.send_signal(signal.SIGINT)
            assert await dev.end() == 0
            assert not dev.folder.exists()

    asyncio.run(main())


@pytest.mark.slow
def test_the_operator_ends_when_the_command_is_killed(project):
    async def main():
        module = project / "greetings" / "manager.py"
        module.write_text(f"{module.read_text()}\nimport os\nprint('process', os.getpid())\n")
        async with Dev.running(project) as dev:
            process = int((await dev.line("process ")).split()[1])
            await dev.line("dev        running")
            descriptor = os.pidfd_open(process)
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(descriptor, ended.set)
            try:
                dev.process.kill()
                await ended.wait()
            finally:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.close(descriptor)
            await dev.end()
            shutil.rmtree(dev.folder)  # a command that is killed cannot

    asyncio.run(main())


def test_a_project_that_cannot_be_imported_fails_with_its_error(project):
    async def main():
        (project / "greetings" / "other.py").write_text("import nowhere_at_all")
        async with Dev.running(project, "--samples", "--once") as dev:
            await dev.line("greetings.manager:setup: No module named 'nowhere_at_all'")
            await dev.line("dev        ended with status 2 before every object was reconciled")
            assert await dev.end() == 1

    asyncio.run(main())


def test_a_command_that_is_stopped_while_it_starts_leaves_nothing_behind(project, tmp_path_factory):
    folders = tmp_path_factory.mktemp("folders")
    process = subprocess.Popen(
        [sys.executable, "-m", "kapi", "dev"],
        cwd=project,
        env={**os.environ, "TMPDIR": str(folders)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not any(folders.iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        _, errors = process.communicate(timeout=90)
    finally:
        process.kill()
        process.communicate()
    # 0 if it was ready before the signal came. CPython itself ends by the signal, which a shell shows as 130, if the
    # interrupt came while it executed a string of code, as named tuples and data classes do when they are imported.
    assert process.returncode in (0, 130, -signal.SIGINT), errors
    assert "Traceback" not in errors
    assert not any(folders.iterdir())


@pytest.mark.parametrize("command", ["dev", "run"])
def test_without_a_project_the_operator_must_be_named(command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kapi", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "name the operator, MODULE:NAME, or run this in a project: there is no PROJECT file" in done.stderr


@pytest.mark.slow
def test_in_a_terminal_the_state_is_drawn_and_ctrl_c_stops(project):
    async def main():
        master, slave = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kapi", "dev", "--samples"),
            cwd=project,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is a signal to what runs in a terminal
        )
        os.close(slave)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(master, "r+b", 0)
        )
        try:
            async with asyncio.timeout(90):
                drawn = b""
                while not (b"Greeted" in drawn and b"text=hello, world" in drawn):
                    drawn += await reader.read(1 << 16)
                os.write(master, b"\x03")
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            transport.close()

    asyncio.run(main())
