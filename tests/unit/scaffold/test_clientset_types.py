"""What type checkers know about generated packages: a program that uses them, read by mypy and by pyright."""

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kapi
from kapi.codec import yaml
from kapi.scaffold.clientset import package_of_definitions
from kapi.scaffold.definitions import read_definition
from type_checks import mypy

CRDS = Path(__file__).parents[2] / "crds"
NETWORKS = """
    from kapi.api.crd import CustomResource, Model, Scale, resource


    class NetworkSpec(Model):
        cidr: str
        replicas: int = 1


    class NetworkStatus(Model):
        phase: str = ""
        replicas: int = 0


    @resource("samples.example.com/v1", scale=Scale())
    class Network(CustomResource):
        spec: NetworkSpec
        status: NetworkStatus | None = None


    @resource("samples.example.com/v1", scope="Cluster")
    class Zone(CustomResource):
        size: int = 0
"""
PROGRAM = """
    from typing import assert_type

    from defined import CollectorLister, TrafficRoute, TrafficRouteV1Beta1
    from defined import Clientset as Defined
    from networks import Network, NetworkSpec, Zone
    from samplecrd import Clientset, NetworkClient, NetworkLister, SharedInformers, ZoneLister

    from kapi.api.builtin.autoscaling_v1 import Scale
    from kapi.client import Client, ObjectList
    from kapi.informer import Handlers, SharedInformer


    async def verbs(client: Client) -> None:
        networks = Clientset(client).networks("default")
        assert_type(networks, NetworkClient)
        network = await networks.create(Network(spec=NetworkSpec(cidr="10.0.0.0/8")), dry_run=True)
        assert_type(network, Network)
        assert_type(await networks.update(network), Network)
        assert_type(await networks.update_status(network, field_manager="me"), Network)
        assert_type(await networks.patch("a", {"spec": {"replicas": 2}}), Network)
        assert_type(await networks.patch("a", [{"op": "remove", "path": "/status"}], kind="json"), Network)
        assert_type(await networks.apply(network, force=True), Network)
        assert_type(await networks.get("a"), Network)
        assert_type(await networks.list(labels={"tier": "1"}), ObjectList[Network])
        async for page in networks.pages(limit=10):
            assert_type(page[0], Network)
        async with networks.watch() as events:
            async for event in events:
                assert_type(event.object, Network)
        assert_type(await networks.delete("a"), Network | None)
        await networks.delete_all(fields="metadata.name=a")
        assert_type(await networks.scale("a", 3), Scale)
        assert_type(await Clientset(client).zones().get("a"), Zone)


    async def caches(client: Client) -> None:
        async with SharedInformers(client.rest, mapper=client.mapper) as informers:
            informer = informers.networks(namespace="default", labels="tier=1")
            assert_type(informer, SharedInformer[Network])
            informer.add_handler(Handlers(on_add=told))
            await informers.wait_for_sync(timeout=30)
            lister = NetworkLister(informer.indexer)
            assert_type(lister.networks("default").get("a"), Network | None)
            assert_type(lister.networks("default").list(labels="tier=1"), list[Network])
            assert_type(lister.list(), list[Network])
            assert_type(ZoneLister(informers.zones().indexer).get("a"), Zone | None)


    def told(network: Network) -> None:
        print(network.spec.cidr)


    async def definitions(client: Client) -> CollectorLister | None:
        assert_type(await Defined(client).trafficroutes().get("a"), TrafficRoute)
        assert_type(await Defined(client).trafficroutes_v1beta1().get("a"), TrafficRouteV1Beta1)
        return None
"""
MISTAKES = """
    from networks import Network, Zone
    from samplecrd import Clientset, NetworkLister, SharedInformers


    async def mistakes(clients: Clientset, informers: SharedInformers, network: Network) -> None:
        await clients.networks("default").create(Zone())
        await clients.networks("default").get("a", colour="red")
        await clients.zones("default").get("a")
        await clients.zones().update_status(Zone())
        await clients.zones().scale("a", 1)
        NetworkLister(informers.zones().indexer)
        informers.zones(namespace="default")
        (await clients.networks().get("a")).spec.colour
"""
CODES = ["arg-type", "call-arg", "call-arg", "attr-defined", "attr-defined", "arg-type", "call-arg", "attr-defined"]


@pytest.fixture
def folder(tmp_path):
    """A program's folder, with a package from classes that the command wrote, and one from definitions."""
    (tmp_path / "networks.py").write_text(textwrap.dedent(NETWORKS))
    generate_sample(tmp_path)
    (tmp_path / "defined").mkdir()
    definitions = [
        read_definition(yaml.decode((CRDS / f"{name}-crd.yaml").read_bytes())) for name in ("collector", "route")
    ]
    for name, text in package_of_definitions(definitions).items():
        (tmp_path / "defined" / name).write_text(text, encoding="utf-8")
    return tmp_path


def generate_sample(folder):
    command = [sys.executable, "-c", "from kapi.cli.main import main; main()", "generate", "client"]
    subprocess.run([*command, "networks", "--package", "samplecrd"], cwd=folder, check=True, capture_output=True)


def pyright(folder):
    """What pyright has against the program and the packages, strictly; nothing where it is not installed."""
    if importlib.util.find_spec("pyright") is None:
        return []
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(Path(kapi.__file__).parents[1])]}
    (folder / "pyrightconfig.json").write_text(
        json.dumps({**settings, "include": ["program.py", "samplecrd", "defined"]})
    )
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=250, check=False)
    return [f"{one['file']}: {one['message']}" for one in json.loads(done.stdout)["generalDiagnostics"]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_type_checkers_see_the_classes_of_the_user(folder):
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    done = mypy(folder, "program.py", "samplecrd", "defined")
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr
    assert pyright(folder) == []
    (folder / "mistakes.py").write_text(textwrap.dedent(MISTAKES))
    lines = [line for line in mypy(folder, "mistakes.py").stdout.splitlines() if ": error: " in line]
    assert [line.rpartition("[")[2].rstrip("]") for line in lines] == CODES, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_of_the_documentation_is_right(tmp_path):
    page = (Path(__file__).parents[3] / "docs/how-to/custom-types.md").read_text()
    classes, program = (block.partition("```")[0] for block in page.split("```python\n")[1:])
    (tmp_path / "networks.py").write_text(classes)
    (tmp_path / "program.py").write_text(program)
    generate_sample(tmp_path)
    done = mypy(tmp_path, "program.py")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
