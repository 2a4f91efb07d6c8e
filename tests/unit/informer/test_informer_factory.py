import asyncio
import contextlib
import re

import pytest

from kapi.api.builtin.core_v1 import ConfigMap, Namespace
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.client import DynamicClient, RESTClient
from kapi.informer import Handlers, PartialObjectMetadata, SharedInformerFactory
from kapi.informer.factory import namespaces_of

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
PATIENCE = 30


@contextlib.asynccontextmanager
async def factory_of(config, **options):
    async with RESTClient(config) as rest, SharedInformerFactory(rest, **options) as factory:
        yield factory


def made(admin, **options):
    """A factory that is not started, for questions that need no server."""
    return SharedInformerFactory(RESTClient(admin), **options)


def test_the_same_collection_has_the_same_informer(admin):
    factory = made(admin)
    assert factory.informer(ConfigMap) is factory.informer(ConfigMap)
    assert factory.informer(ConfigMap, labels="b=1,a=2") is factory.informer(ConfigMap, labels="a = 2, b = 1")
    assert factory.metadata_informer(ConfigMap) is factory.metadata_informer(CONFIG_MAP)


def test_another_collection_has_another_informer(admin):
    factory = made(admin)
    informers = [
        factory.informer(ConfigMap),
        factory.informer(ConfigMap, namespace="x"),
        factory.informer(ConfigMap, labels="a=1"),
        factory.informer(ConfigMap, fields="metadata.name=x"),
        factory.informer(CONFIG_MAP),
        factory.informer(Namespace),
        factory.metadata_informer(ConfigMap),
    ]
    assert len(set(map(id, informers))) == len(informers)
    assert len({informer.name for informer in informers[:4]}) == 4


def test_the_factorys_namespace_is_the_informers_unless_given(admin):
    factory = made(admin, namespace="x")
    assert factory.informer(ConfigMap) is factory.informer(ConfigMap, namespace="x")
    assert factory.informer(ConfigMap) is not factory.informer(ConfigMap, namespace="")


def test_several_namespaces_are_the_same_in_any_order_and_notation(admin):
    factory = made(admin, namespace=["y", "x"])
    assert factory.informer(ConfigMap) is factory.informer(ConfigMap, namespace="x,y")
    assert factory.informer(ConfigMap) is factory.informer(ConfigMap, namespace=(" y", "x", "y"))
    assert factory.informer(ConfigMap) is not factory.informer(ConfigMap, namespace="x")
    assert factory.informer(ConfigMap).name == "ConfigMap.v1, namespace x,y"


def test_no_two_forms_of_a_collection_share_a_name(admin):
    factory = made(admin)
    forms = [factory.informer(ConfigMap), factory.informer(CONFIG_MAP), factory.metadata_informer(ConfigMap)]
    assert len({informer.name for informer in forms}) == len(forms)


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        ("", ()),
        ("  ", ()),
        ([""], ()),
        ("a", ("a",)),
        ("b,a", ("a", "b")),
        (" a , b,a ", ("a", "b")),
        (["b", "a", "b"], ("a", "b")),
    ],
)
def test_namespaces_are_named_in_any_order_and_as_often_as_one_likes(names, meant):
    assert namespaces_of(names) == meant


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], "namespaces is empty"),
        ("a,", "stands alone"),
        (",", "stands alone"),
        (["a", ""], "stands alone"),
        ("a,,b", "stands alone"),
        ("a,B", "namespace 'B'"),
        ("*", "namespace '*'"),
        ("a b", "namespace 'a b'"),
        ("a.b", "must not contain dots"),
    ],
)
def test_names_that_cannot_be_meant_are_refused_in_words(names, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        namespaces_of(names)


def test_follows_several_namespaces_of_a_real_server_and_kinds_without_any(admin):
    async def main():
        async with factory_of(admin, namespace="default,kube-public") as factory:
            maps, metadata = factory.informer(ConfigMap), factory.metadata_informer(ConfigMap)
            namespaces = factory.informer(Namespace)
            await factory.wait_for_sync(PATIENCE)
            heard = asyncio.Queue()
            maps.add_handler(Handlers(on_add=lambda obj: heard.put_nowait(ObjectKey.of(obj))))
            client = DynamicClient(factory._rest)
            for namespace in ("default", "kube-public", "kube-system"):
                await client.resource(CONFIG_MAPS, namespace).create({"metadata": {"name": "spread"}})
            expected, found = {ObjectKey("default", "spread"), ObjectKey("kube-public", "spread")}, set()
            while not expected <= found:
                found.add(await asyncio.wait_for(heard.get(), PATIENCE))
            assert {key.namespace for key in found} == {"default", "kube-public"}
            assert namespaces.lister.get("kube-system").metadata.name == "kube-system"
            assert list(namespaces.reflector.parts) == [""]
            assert sorted(metadata.reflector.parts) == ["default", "kube-public"]
            for namespace in ("default", "kube-public", "kube-system"):
                await client.resource(CONFIG_MAPS, namespace).delete("spread")

    asyncio.run(main())


def test_a_class_that_stands_for_no_kind_is_refused(admin):
    with pytest.raises(TypeError, match="stands for no kind"):
        made(admin).informer(int)


def test_follows_a_real_server_in_every_form(admin):
    async def main():
        async with factory_of(admin, namespace="default") as factory:
            typed, untyped = factory.informer(ConfigMap), factory.informer(CONFIG_MAP)
            metadata = factory.metadata_informer(ConfigMap)
            chosen = factory.informer(ConfigMap, labels="colour=blue")
            named = factory.informer(ConfigMap, fields="metadata.name=one")
            everything = [typed, untyped, metadata, chosen, named]
            await factory.wait_for_sync(PATIENCE)
            heard = asyncio.Queue()
            for informer in everything:
                informer.add_handler(Handlers(on_add=heard.put_nowait))
            client = DynamicClient(factory._rest).resource(CONFIG_MAPS, "default")
            await client.create({"metadata": {"name": "one", "labels": {"colour": "blue"}}, "data": {"k": "v"}})
            for _ in everything:
                await asyncio.wait_for(heard.get(), PATIENCE)
            assert typed.lister.get("one", "default").data == {"k": "v"}
            assert untyped.lister.get("one", "default")["kind"] == "ConfigMap"
            partial = metadata.lister.get("one", "default")
            assert isinstance(partial, PartialObjectMetadata)
            assert partial.metadata.labels == {"colour": "blue"}
            assert b'"data"' not in metadata.lister.cached.get("one", "default").raw
            gone = asyncio.Event()
            chosen.add_handler(Handlers(on_delete=lambda _: gone.set()))
            await client.patch("one", {"metadata": {"labels": {"colour": "red"}}})
            await asyncio.wait_for(gone.wait(), PATIENCE)
            assert len(chosen.lister) == 0
            assert len(named.lister) == 1
            await client.patch("one", {"metadata": {"labels": {"colour": "blue"}}})
            back = await asyncio.wait_for(heard.get(), PATIENCE)
            assert back.metadata.labels == {"colour": "blue"}
            assert len(chosen.lister) == 1
            await client.delete("one")

    asyncio.run(main())


def test_an_informer_that_is_asked_for_late_is_started_at_once(admin):
    async def main():
        async with factory_of(admin) as factory:
            informer = factory.informer(Namespace)
            await informer.wait_for_sync(PATIENCE)
            assert informer.lister.get("default").metadata.name == "default"

    asyncio.run(main())


def test_an_informer_stops_when_the_last_one_lets_go_of_it(admin):
    async def main():
        async with factory_of(admin) as factory:
            informer = factory.informer(Namespace)
            assert factory.informer(Namespace) is informer
            await factory.release(informer)
            assert not informer.is_stopped
            await factory.release(informer)
            assert informer.is_stopped
            with pytest.raises(ValueError, match="released"):
                await factory.release(informer)
            assert factory.informer(Namespace) is not informer

    asyncio.run(main())


def test_stopping_stops_all(admin):
    async def main():
        async with factory_of(admin) as factory:
            informers = [factory.informer(Namespace), factory.informer(ConfigMap)]
            await factory.wait_for_sync(PATIENCE)
        assert all(informer.is_stopped for informer in informers)

    asyncio.run(main())


def test_waiting_names_what_has_not_synced(admin):
    async def main():
        async with factory_of(admin) as factory:
            factory.informer(GroupVersionKind("nowhere.dev", "v1", "Nothing"))
            with pytest.raises(TimeoutError, match=r'Nothing\.nowhere\.dev/v1.*no matches for kind "Nothing"'):
                await factory.wait_for_sync(0.5)

    asyncio.run(main())
