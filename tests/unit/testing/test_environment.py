"""An environment is a whole control plane: kinds, users, namespaces, managers, ports and processes."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sample_operator import Site, site, sites

from kapi import Client, NotFound, definition
from kapi.api.errors import Forbidden
from kapi.base.loop import run
from kapi.client.config import ClientConfig
from kapi.client.errors import ConnectError
from kapi.testing import Environment, HistoryError, Unsupported
from kapi.testing.servers import KUBECONFIG_VARIABLE

CONFIG_MAP = ("v1", "ConfigMap")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    monkeypatch.delenv(KUBECONFIG_VARIABLE, raising=False)


def config_map(name, namespace="default", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def test_an_environment_serves_built_in_and_custom_kinds_without_a_port():
    async def main():
        async with Environment(crds=[Site]) as env:
            assert (await env.client.create(site("a"))).spec.title == "hello"
            assert (await env.client.create(config_map("a", key="value")))["data"] == {"key": "value"}
            assert env._in_process("plane").plane.url == ""

    run(main())


def test_kinds_are_given_as_classes_dictionaries_and_files(tmp_path):
    from kapi.codec import yaml

    other = definition(Site)
    other["metadata"]["name"] = "places.example.com"
    other["spec"]["names"] = {"kind": "Place", "listKind": "PlaceList", "plural": "places", "singular": "place"}
    third = {
        **other,
        "metadata": {"name": "halls.example.com"},
        "spec": {**other["spec"], "names": {"kind": "Hall", "listKind": "HallList", "plural": "halls"}},
    }
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "halls.yaml").write_bytes(yaml.encode(third))
    (tmp_path / "crds" / "README.txt").write_text("not a manifest")

    async def main():
        async with Environment(crds=[Site, other, tmp_path / "crds"]) as env:
            for plural in ("sites", "places", "halls"):
                assert (await env.client.list(f"{plural}.example.com")).items == []

    run(main())


def test_objects_are_applied_at_the_start_and_later(tmp_path):
    file = tmp_path / "objects.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: file, namespace: default}\n---\n")

    async def main():
        async with Environment(crds=[Site], objects=[config_map("given"), file]) as env:
            await env.apply(site("typed"))
            names = {one["metadata"]["name"] for one in await env.client.list(CONFIG_MAP, namespace="default")}
            assert {"given", "file"} <= names
            assert (await env.client.get(Site, "typed", namespace="default")).spec.title == "hello"

    run(main())


def test_a_user_may_do_what_its_roles_allow_and_nothing_else():
    async def main():
        async with Environment(crds=[Site]) as env, env.namespace() as namespace:
            await env.client.create(site("a", namespace))
            alice = await env.user("alice", rules=[{Site: ["get"], "configmaps": ["*"]}], namespace=namespace)
            client = env.client_for(alice)
            assert (await client.get(Site, "a", namespace=namespace)).spec.title == "hello"
            await client.create(config_map("a", namespace))
            with pytest.raises(Forbidden, match='User "alice" cannot delete resource "sites"'):
                await client.delete(Site, "a", namespace=namespace)
            with pytest.raises(Forbidden):
                await client.get(CONFIG_MAP, "a", namespace="default")
            with pytest.raises(Forbidden):
                await env.client_for("bob").get(CONFIG_MAP, "a", namespace=namespace)
            viewer = await env.user("carol", groups=["readers"], role="view")
            await env.client_for(viewer).get(CONFIG_MAP, "a", namespace=namespace)

    run(main())


def test_a_role_without_rules_is_told():
    async def main():
        async with Environment(controllers=(), time="virtual") as env:
            with pytest.raises(HistoryError, match="the ClusterRole view has no rules; is clusterrole-aggregation"):
                await env.user("alice", role="view")

    asyncio.run(main())


@pytest.mark.parametrize("controllers", ["*", ()])
def test_a_pod_is_admitted_with_and_without_the_controller_of_service_accounts(controllers):
    async def main():
        async with Environment(controllers=controllers, time="virtual") as env:
            spec = {"containers": [{"name": "c", "image": "i"}]}
            metadata = {"name": "p", "namespace": "default"}
            pod = await env.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            assert ("serviceAccountName" in pod["spec"]) == bool(controllers)

    asyncio.run(main())


def test_a_namespace_is_deleted_with_all_that_is_in_it():
    async def main():
        async with Environment() as env:
            async with env.namespace() as first, env.namespace() as second:
                assert first != second
                await env.client.create(config_map("a", first))
            await env.eventually(lambda: _is_gone(env.client, ("v1", "Namespace"), first))
            await env.eventually(lambda: _is_gone(env.client, CONFIG_MAP, "a", first))

    run(main())


async def _is_gone(client, kind, name, namespace=None):
    try:
        await client.get(kind, name, namespace=namespace)
    except NotFound:
        return True
    return False


def test_a_manager_reconciles_and_its_objects_are_garbage_collected():
    async def main():
        async with Environment(crds=[Site]) as env:
            manager = env.manager()
            reconciler = sites(manager)
            async with env.run(manager):
                await env.client.create(site("a"))
                page = await env.eventually(lambda: env.client.get(CONFIG_MAP, "a", namespace="default"))
                assert page["data"] == {"title": "hello"}
                await env.client.delete(Site, "a", namespace="default")
                await env.eventually(lambda: _is_gone(env.client, Site, "a", "default"))
                await env.eventually(lambda: _is_gone(env.client, CONFIG_MAP, "a", "default"))
                assert reconciler.pages == {}

    run(main())


def test_what_an_operators_role_lacks_is_found():
    async def main():
        async with Environment(crds=[Site]) as env:
            rules = [{Site: ["get", "list", "watch", "patch"], "configmaps": ["list", "watch"]}]
            manager = env.manager(user=await env.user("operator", rules=rules))
            sites(manager)
            async with env.run(manager):
                await env.client.create(site("a"))
                await env.eventually(lambda: any(entry.status == 403 for entry in env.history.requests(verb="patch")))

    run(main())


def test_an_error_that_ends_a_manager_ends_the_waiting_for_it():
    class Broken:
        name, needs_leader_election = "broken", False

        async def run(self):
            raise LookupError("no such page")

        def stop(self):
            pass

    async def main():
        async with Environment() as env:
            manager = env.manager()
            manager.add(Broken())
            with pytest.raises(LookupError, match="no such page"):
                await wait_with(env, manager)

    async def wait_with(env, manager):
        async with env.run(manager):
            with pytest.raises(RuntimeError, match="a manager has ended: no such page"):
                await env.eventually(lambda: False)

    run(main())


def test_a_condition_that_does_not_come_true_fails_with_the_story():
    async def main():
        async with Environment() as env:
            await env.client.create(config_map("seen"))

            def has_happened():
                raise AssertionError("nothing yet")

            with pytest.raises(HistoryError) as failure:
                await env.eventually(has_happened, timeout=0.01)
            text = str(failure.value)
            assert text.startswith("has_happened was not true within 0.01 s: nothing yet\n\nWhat happened:")
            assert "create  configmaps default/seen  201 rv" in text
            await env.never(lambda: False, during=0.01)
            with pytest.raises(HistoryError, match="the condition was true: 'yes'"):
                await env.never(lambda: "yes")

    run(main())


def test_a_client_is_refused_once_its_environment_is_closed():
    async def main():
        async with Environment(controllers=()) as env:
            client = env.client
        with pytest.raises(ConnectError, match="the environment has been closed"):
            await client.rest.request("GET", "/version")

    run(main())


def test_a_port_is_opened_when_it_is_asked_for():
    async def main():
        async with Environment(crds=[Site]) as env:
            assert (await env.listen()).startswith("https://127.0.0.1:")
            await env.client.create(site("a"))
            async with Client.connect(kubeconfig=await env.kubeconfig()) as client:
                assert (await client.get(Site, "a", namespace="default")).spec.title == "hello"
        async with Environment(listen=True) as env:
            assert await env.listen() == await env.listen()

    run(main())


def test_a_control_plane_in_another_process_and_an_existing_cluster_are_used_alike(monkeypatch):
    async def check(env):
        await env.apply(site("a"))
        alice = await env.user("alice", rules=[{Site: ["get"]}])
        client = env.client_for(alice)
        assert (await client.get(Site, "a", namespace="default")).spec.title == "hello"
        with pytest.raises(Forbidden):
            await client.delete(Site, "a", namespace="default")
        env.faults.add(verb="delete", resource=Site, then="lose_response", times=1)
        for refused in (env.snapshot, env.fork):
            with pytest.raises(Unsupported):
                refused()

    async def main():
        async with Environment.process(crds=[Site], controllers=()) as env:
            await check(env)
            monkeypatch.setenv(KUBECONFIG_VARIABLE, str(await env.kubeconfig()))
            async with Environment(crds=[Site]) as same:
                assert await same.listen() == await env.listen()
                await check(same)
            with pytest.raises(Unsupported):
                async with Environment(time="virtual"):
                    pass

    asyncio.run(main())


PARENT = """
import asyncio, os
from kapi.testing import Environment

async def main():
    async with Environment.process(controllers=()) as env:
        print(env._server._process.pid, await env.kubeconfig(), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_child_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with parent:
        child, kubeconfig = parent.stdout.readline().split()
        config = ClientConfig.from_kubeconfig(kubeconfig)
        assert config.server.startswith("https://127.0.0.1:")
        parent.send_signal(signal.SIGKILL)
    # A process that has no parent is reaped by another; that it has ended is seen by its port.
    while _is_running(int(child)):
        asyncio.run(asyncio.sleep(0.01))


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_that_does_not_start_says_why():
    async def main():
        with pytest.raises(RuntimeError, match="did not start"):
            async with Environment.process(options=["--no-such-option"]):
                pass

    asyncio.run(main())


@pytest.mark.parametrize(
    "options", [{"time": "lunar"}, {"time": "virtual", "listen": True}, {"seed": 1}, {"controllers": "nonsense"}]
)
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ValueError):
        Environment(**options)


def test_environments_leave_no_files_behind():
    code = (
        "import asyncio, tempfile, os\nfrom kapi.testing import Environment\n"
        "async def main():\n    async with Environment(listen=True) as env:\n        print(await env.kubeconfig())\n"
        "asyncio.run(main())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    path = Path(shown.stdout.strip())
    assert path.name == "kubeconfig"
    assert not path.parent.parent.exists()
