"""The fixtures of the pytest plugin, with and without the plugins that run asynchronous tests, and in parallel."""

import os
import subprocess
import sys

import pytest

CONFTEST = """
import pytest
from kapi import CustomResource, Model, resource
from kapi.api.builtin.meta_v1 import ObjectMeta


class SiteSpec(Model):
    title: str


@resource("example.com/v1")
class Site(CustomResource, kw_only=True):
    spec: SiteSpec


@pytest.fixture(scope="session")
def kapi_environment_options():
    return {"crds": [Site], "controllers": ()}


@pytest.fixture
def site(kapi_namespace):
    return Site(metadata=ObjectMeta(name="a", namespace=kapi_namespace), spec=SiteSpec(title="hello"))
"""

SYNC = """
import pytest
from kapi import NotFound
from kapi.client.sync import SyncClient


@pytest.mark.parametrize("number", range(3))
def test_each_test_has_a_state_of_its_own(kapi_client, kapi_namespace, site, number):
    assert isinstance(kapi_client, SyncClient)
    assert [one.metadata.name for one in kapi_client.list(type(site), namespace=kapi_namespace)] == []
    kapi_client.create(site)
    kapi_client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}})


def test_a_synchronous_environment_does_what_an_asynchronous_one_does(kapi_environment, kapi_client, site):
    env, namespace = kapi_environment, site.metadata.namespace
    alice = env.user("alice", rules=[{type(site): ["get", "create"]}])
    env.client_for(alice).create(site)
    assert env.eventually(lambda: kapi_client.get(type(site), "a", namespace=namespace).spec.title) == "hello"
    env.settled(quiet=0.01)
    state = env.snapshot()
    kapi_client.delete(type(site), "a", namespace=namespace)
    with pytest.raises(AssertionError, match="the condition was not true within 0.01 s: .*not found"):
        env.eventually(lambda: kapi_client.get(type(site), "a", namespace=namespace), timeout=0.01)
    env.restore(state)
    assert kapi_client.get(type(site), "a", namespace=namespace).metadata.uid
    env.history.at_most(2, resource="sites")
    assert str(env.kubeconfig()).endswith("kubeconfig")

    seen = []

    def make(environment):
        manager = environment.manager()

        async def reconcile(request):
            seen.append(request.name)

        manager.builder().for_(type(site)).complete(reconcile)
        return manager

    with env.run(make):
        env.eventually(lambda: seen == ["a"])
"""

ASYNC = """
import asyncio
import pytest
from kapi import Client

{marks}


@pytest.fixture
{fixture}
async def stored(kapi_client, site):
    return await kapi_client.create(site)


{mark}
@pytest.mark.parametrize("number", range(2))
async def test_an_asynchronous_test_shares_its_loop_with_the_environment(kapi_environment, kapi_client, stored, number):
    assert kapi_environment.client is kapi_client
    assert isinstance(kapi_client, Client)
    assert stored.metadata.uid
    assert kapi_environment._in_process("plane").plane.failed.get_loop() is asyncio.get_running_loop()


{mark}
async def test_another(kapi_client, kapi_namespace):
    assert (await kapi_client.get("namespaces", kapi_namespace))["status"]["phase"] == "Active"


def test_a_synchronous_test_of_the_same_module(kapi_client, kapi_namespace):
    assert kapi_client.get("namespaces", kapi_namespace)["status"]["phase"] == "Active"
"""

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ASYNC.format(
    marks='pytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend():\n    return "asyncio"',
    fixture="",
    mark="",
)


def _pytest(folder, *options, tests):
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in tests.items():
        (folder / name).write_text(text)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "KAPI", "COV"))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "-p",
        "kapi.testing.pytest_plugin",
    ]
    ran = subprocess.run(
        [*command, *options, "--rootdir", str(folder), str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["alone", "xdist"])
def test_synchronous_tests_need_no_other_plugin(tmp_path, options):
    status, output = _pytest(tmp_path, *options, tests={"test_sync.py": SYNC})
    assert status == 0, output
    assert "4 passed" in output


@pytest.mark.parametrize("mode", ["strict", "auto", "session"])
def test_pytest_asyncio_runs_the_asynchronous_fixtures(tmp_path, mode):
    explicit = mode != "auto"
    text = ASYNC.format(
        marks="import pytest_asyncio" if explicit else "",
        fixture="",
        mark=("@pytest.mark.asyncio(loop_scope='session')" if mode == "session" else "@pytest.mark.asyncio")
        if explicit
        else "",
    )
    if explicit:
        scope = "(loop_scope='session')" if mode == "session" else ""
        text = text.replace("@pytest.fixture\n\nasync", f"@pytest_asyncio.fixture{scope}\nasync")
    options = (*ASYNCIO, "-o", f"asyncio_mode={'auto' if mode == 'auto' else 'strict'}")
    status, output = _pytest(tmp_path, *options, tests={"test_async.py": text})
    assert status == 0, output
    assert "4 passed" in output


@pytest.mark.parametrize("others", [(), ASYNCIO], ids=["alone", "with-pytest-asyncio"])
def test_anyio_runs_the_asynchronous_fixtures(tmp_path, others):
    status, output = _pytest(tmp_path, "-p", "anyio.pytest_plugin", *others, tests={"test_async.py": ANYIO})
    assert status == 0, output
    assert "4 passed" in output


def test_the_plugin_imports_no_control_plane():
    code = "import sys, kapi.testing.pytest_plugin; print([name for name in sys.modules if name.startswith('kapi.s')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
