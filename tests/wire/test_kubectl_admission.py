"""Dynamic admission with kubectl: the Envoy injector of examples/envoy-injector in its three forms, and warnings."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "envoy-injector"
SECONDS = 60


class Session:
    """A kubectl at a server."""

    def __init__(self, kubectl, server):
        self.kubectl, self.server = kubectl, server
        self.environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}

    def run(self, *arguments):
        return subprocess.run(
            [self.kubectl.path, *arguments],
            check=False,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def output(self, *arguments):
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def apply(self, *files):
        return self.output("apply", *(part for file in files for part in ("-f", str(FOLDER / file))))

    def containers(self, name):
        return self.output("get", "pod", name, "-o", "jsonpath={.spec.containers[*].name}")

    @contextlib.contextmanager
    def program(self, name):
        """Run a program of the example while the block runs."""
        with (self.server.directory / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, FOLDER / name, *(["--port", "0"] if name == "webhook.py" else [])],
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
            assert process.poll() is None, (self.server.directory / f"{name}.log").read_text()
        finally:
            process.terminate()
            process.wait(SECONDS)

    def until(self, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, "it does not come"
            time.sleep(0.1)


@pytest.fixture
def session(kubectl, server):
    return Session(kubectl, server)


def test_an_initializer_injects_envoy(session):
    session.apply("configmap.yaml")
    with session.program("initializer.py"):
        assert "initializerconfiguration.admissionregistration.k8s.io/envoy-config created" in session.apply(
            "initializer-configuration.yaml"
        )
        assert session.apply("pod.yaml") == "pod/myapp created\n"
        assert session.containers("myapp") == "myapp envoy"


def test_a_webhook_that_registers_itself_injects_envoy(session):
    session.apply("configmap.yaml")
    with session.program("webhook.py"):
        session.until(
            lambda: session.run("get", "mutatingwebhookconfiguration", "envoy-injector", "-o", "name").returncode == 0
        )
        session.apply("pod.yaml")
        assert session.containers("myapp") == "myapp envoy"
    assert session.output("get", "mutatingwebhookconfigurations", "-o", "name") == "", "it is deleted with its server"


def test_a_policy_injects_envoy(session):
    session.apply("policy.yaml")
    session.apply("pod.yaml")
    assert session.containers("myapp") == "myapp envoy"


def test_warnings_of_admission_are_shown(session):
    session.output("label", "namespace", "default", "pod-security.kubernetes.io/warn=restricted")
    shown = session.run("apply", "-f", str(FOLDER / "pod.yaml"))
    assert shown.returncode == 0, shown.stderr
    assert 'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in shown.stderr


def test_a_quota_refuses_in_the_words_of_kubernetes(session):
    session.output("create", "quota", "few", "--hard=configmaps=2")
    session.until(lambda: "configmaps" in session.output("get", "quota", "few", "-o", "jsonpath={.status.hard}"))
    session.output("create", "configmap", "second")
    refused = session.run("create", "configmap", "third")
    assert refused.returncode == 1
    assert (
        'configmaps "third" is forbidden: exceeded quota: few, requested: configmaps=1, used: configmaps=2, '
        "limited: configmaps=2"
    ) in refused.stderr
