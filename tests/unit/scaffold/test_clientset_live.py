"""A generated clientset, its informers and listers against a running control plane."""

import asyncio
import importlib
import sys

import pytest

from crd_classes import Kiosk, KioskSpec, KioskStatus
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.crd import CustomResource, definition, resource
from kapi.api.errors import NotFound
from kapi.client import ALL_NAMESPACES, Client, ClientConfig
from kapi.codec import yaml
from kapi.informer import Handlers
from kapi.scaffold.clientset import package_of_classes, package_of_definitions
from kapi.scaffold.definitions import read_definition
from live_plane import live_plane


@resource("homes.example.com/v1", kind="Bulb", scope="Cluster")
class BulbV1(CustomResource):
    watts: int = 0


@resource("homes.example.com/v1beta1", kind="Bulb", scope="Cluster", storage=False)
class BulbV1Beta1(CustomResource):
    watts: int = 0


CLASSES = (Kiosk, BulbV1, BulbV1Beta1)


@pytest.fixture(scope="module")
def admin(tmp_path_factory):
    """The admin's config of a control plane that serves the sample kinds."""
    with live_plane(tmp_path_factory.mktemp("clientset")) as kubeconfig:
        config = ClientConfig.from_kubeconfig(kubeconfig)
        asyncio.run(define(config, definition(Kiosk), definition(BulbV1, BulbV1Beta1)))
        yield config


async def define(config, *definitions):
    async with Client(config) as client:
        for one in definitions:
            await client.create(one)
            await client.wait_for("customresourcedefinitions", one["metadata"]["name"], "condition=Established")


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """Writes a package and imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, files):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text, encoding="utf-8")
        names.append(name)
        return importlib.import_module(name)

    yield write
    for module in list(sys.modules):
        if module.partition(".")[0] in names:
            del sys.modules[module]


def kiosk(name, **labels):
    return Kiosk(metadata=ObjectMeta(name=name, labels=labels or None), spec=KioskSpec(title=name, note=None, mode="a"))


def test_every_verb_of_a_clientset_reaches_the_server(admin, generated):
    package = generated("verbs", package_of_classes(CLASSES))

    async def check(client):
        kiosks = package.Clientset(client).kiosks("default")
        made = await kiosks.create(kiosk("a", tier="1"))
        assert type(made) is Kiosk
        assert made.metadata.namespace == "default"
        made.spec.replicas = 2
        assert (await kiosks.update(made)).metadata.generation == 2
        assert (await kiosks.patch("a", {"spec": {"step": 20}})).spec.step == 20
        test = [{"op": "test", "path": "/spec/step", "value": 20}]
        assert (await kiosks.patch("a", test, kind="json")).spec.replicas == 2

        read = await kiosks.get("a")
        read.status, read.spec.replicas = KioskStatus(replicas=1), 9
        answer = await kiosks.update_status(read)
        assert (answer.status.replicas, answer.spec.replicas) == (1, 2)
        assert (await kiosks.patch_status("a", {"status": {"replicas": 2}})).status.replicas == 2
        applied = kiosk("a")
        applied.status = KioskStatus(selector="app=a")
        assert (await kiosks.apply_status(applied, field_manager="test", force=True)).status.selector == "app=a"

        assert (await kiosks.scale("a", 4)).spec.replicas == 4
        assert (await kiosks.get_scale("a")).status.replicas == 2

        await kiosks.apply(kiosk("b"), field_manager="test")
        assert [one.metadata.name for one in await kiosks.list(labels="tier=1")] == ["a"]
        pages = [[one.metadata.name for one in page] async for page in kiosks.pages(limit=1)]
        assert pages == [["a"], ["b"]]
        async with kiosks.watch() as events:
            event = await anext(events)
            assert (event.type, type(event.object)) == ("ADDED", Kiosk)

        await kiosks.delete("a")
        with pytest.raises(NotFound):
            await kiosks.get("a")
        await kiosks.delete_all()
        assert len(await package.Clientset(client).kiosks(ALL_NAMESPACES).list()) == 0

    asyncio.run(connected(admin, check))


async def connected(config, check):
    async with Client(config) as client:
        await check(client)


def test_clients_without_a_namespace_use_that_of_the_object(admin, generated):
    package = generated("nowhere", package_of_classes(CLASSES))

    async def check(client):
        kiosks = package.Clientset(client).kiosks()
        obj = kiosk("own")
        obj.metadata.namespace = "kube-public"
        assert (await kiosks.create(obj)).metadata.namespace == "kube-public"
        await package.Clientset(client).kiosks("kube-public").delete("own")

    asyncio.run(connected(admin, check))


def test_versions_of_a_kind_are_read_as_their_own_classes(admin, generated):
    package = generated("versions", package_of_classes(CLASSES))

    async def check(client):
        clients = package.Clientset(client)
        await clients.bulbs().create(BulbV1(metadata=ObjectMeta(name="desk"), watts=5))
        old = await clients.bulbs_v1beta1().patch("desk", {"watts": 7})
        assert (type(old), old.watts, old.api_version) == (BulbV1Beta1, 7, "homes.example.com/v1beta1")
        new = await clients.bulbs().get("desk")
        assert (type(new), new.watts, new.api_version) == (BulbV1, 7, "homes.example.com/v1")
        await clients.bulbs().delete("desk")

    asyncio.run(connected(admin, check))


def test_informers_and_listers_see_what_the_clientset_writes(admin, generated):
    package = generated("caches", package_of_classes(CLASSES))

    async def check(client):
        kiosks = package.Clientset(client).kiosks("default")
        await kiosks.create(kiosk("first", tier="1"))
        heard = asyncio.Queue()
        async with package.SharedInformers(client.rest, mapper=client.mapper) as informers:
            informer, bulbs = informers.kiosks(), informers.bulbs()
            informer.add_handler(Handlers(on_add=heard.put_nowait))
            await informers.wait_for_sync(30)
            await kiosks.create(kiosk("second"))
            names = [(await asyncio.wait_for(heard.get(), 30)).metadata.name for _ in range(2)]
            assert names == ["first", "second"]

            lister = package.KioskLister(informer.indexer)
            here = lister.kiosks("default")
            assert type(here.get("second")) is Kiosk
            assert [one.metadata.name for one in here.list(labels={"tier": "1"})] == ["first"]
            assert len(here.list()) == len(lister.list()) == 2
            assert lister.kiosks("elsewhere").get("second") is None
            assert lister.kiosks("elsewhere").list() == []
            assert package.BulbLister(bulbs.indexer).get("desk") is None
        await kiosks.delete_all()

    asyncio.run(connected(admin, check))


DEFINITION = b"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clients.keys.example.dev}
spec:
  group: keys.example.dev
  scope: Namespaced
  names: {plural: clients, kind: Client}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, required: [secret], properties: {secret: {type: string}}}
"""


def test_a_definition_becomes_a_clientset_even_if_its_kind_has_a_name_that_is_taken(admin, generated):
    defined = read_definition(yaml.decode(DEFINITION))
    package = generated("keys", package_of_definitions([defined]))

    async def check(client):
        await define(admin, yaml.decode(DEFINITION))
        clients = package.Clientset(client).clients("default")
        spec = importlib.import_module("keys.types").ClientSpec(secret="x")
        made = await clients.create(package.ClientKind(metadata=ObjectMeta(name="a"), spec=spec))
        assert type(made) is package.ClientKind
        assert (await clients.get("a")).spec.secret == "x"

    asyncio.run(connected(admin, check))
