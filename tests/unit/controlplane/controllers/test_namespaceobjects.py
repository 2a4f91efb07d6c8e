"""Objects that every namespace has: created together with it, and restored when they are deleted or wrong."""

import asyncio

import pytest

from api_client import NS, cm
from controller_api import running_controllers, with_controllers
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.namespacepopulation import namespace_populator, namespace_store
from kapi.controlplane.controllers.rootcacertificatepublisher import add_root_ca_certificate_publisher
from kapi.controlplane.controllers.serviceaccount import add_serviceaccount_controller
from kapi.server.transport.inprocess import InProcessTransport
from kapi.server.transport.message import Peer
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PEM = b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
BOTH = (names.SERVICEACCOUNT, names.ROOT_CA_CERTIFICATE_PUBLISHER)
SETTINGS = ControllerSettings(authority=PEM)
PURPOSE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
SYSTEM = {"default", "kube-system", "kube-public", "kube-node-lease"}


def _populate(api, controllers=BOTH, authority=PEM):
    """From now on, new namespaces are populated."""
    namespace_store(api.catalog).populate = namespace_populator(api.transport, controllers, authority)


def _stranger(api):
    """A transport whose requests are all anonymous."""

    async def forward(request):
        request.peer = Peer("192.0.2.1")
        return await api.pipeline(request)

    return InProcessTransport(forward)


async def _ns(api, name="probe"):
    return await api.made(NS, {"metadata": {"name": name}})


def _accounts(api):
    return {namespace for namespace, name in api.there("serviceaccounts") if name == "default"}


def _maps(api):
    return {namespace for namespace, name in api.there("configmaps") if name == "kube-root-ca.crt"}


# -- with the creation ------------------------------------------------------------------------------------------------


@with_controllers()
async def test_a_new_namespace_is_populated_when_its_creation_is_answered(api):
    _populate(api)
    await _ns(api)
    account = api.find("serviceaccounts", "probe", "default")
    assert account.keys() == {"apiVersion", "kind", "metadata"}
    published = api.find("configmaps", "probe", "kube-root-ca.crt")
    assert published["data"] == {"ca.crt": PEM.decode()}
    assert published["metadata"]["annotations"] == {"kubernetes.io/description": PURPOSE}
    (entry,) = published["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kube-controller-manager", "Update")


def test_the_creation_of_a_namespace_waits_for_its_population():
    @with_controllers()
    async def check(api):
        populated = []

        async def populate(name):
            await asyncio.sleep(1)
            populated.append(name)

        api.catalog.store("namespaces").populate = populate
        await api.made(NS, {"metadata": {"name": "a"}})
        assert populated == ["a"]
        await api.post(NS, {"metadata": {"name": "b"}}, dryRun="All")
        assert populated == ["a"]

    check()


@with_controllers()
async def test_a_namespace_with_a_generated_name_is_populated(api):
    _populate(api)
    made = await api.made(NS, {"metadata": {"generateName": "gen-"}})
    assert _accounts(api) == _maps(api) == {made["metadata"]["name"]}


@with_controllers()
async def test_a_dry_run_populates_nothing(api):
    _populate(api)
    before = api.revision
    assert (await api.post(NS, {"metadata": {"name": "probe"}}, dryRun="All")).status == 201
    assert api.revision == before


@with_controllers()
async def test_a_refused_namespace_populates_nothing(api):
    _populate(api)
    before = api.revision
    assert (await api.post(NS, {"metadata": {"name": "default"}})).status == 409
    assert (await api.post(NS, {"metadata": {"name": "a.b"}})).status == 422
    assert api.revision == before
    assert not namespace_store(api.catalog).populating


@with_controllers()
async def test_an_update_of_a_namespace_populates_nothing(api):
    _populate(api)
    before = api.revision
    await api.patch(f"{NS}/default", {"metadata": {"labels": {"a": "b"}}})
    assert api.revision == before + 1


@pytest.mark.parametrize(
    ("controllers", "authority", "accounts", "maps"),
    [
        (BOTH, PEM, {"probe"}, {"probe"}),
        ((names.SERVICEACCOUNT,), PEM, {"probe"}, set()),
        ((names.ROOT_CA_CERTIFICATE_PUBLISHER,), PEM, set(), {"probe"}),
        (BOTH, b"", {"probe"}, set()),
        ((), PEM, set(), set()),
    ],
    ids=["both", "accounts", "authority", "no authority", "neither"],
)
def test_objects_of_disabled_controllers_are_not_created(controllers, authority, accounts, maps):
    @with_controllers()
    async def check(api):
        _populate(api, controllers, authority)
        await _ns(api)
        assert (_accounts(api), _maps(api)) == (accounts, maps)

    check()


def test_without_objects_there_is_no_populator():
    assert namespace_populator(None, (), PEM) is None
    assert namespace_populator(None, (names.ROOT_CA_CERTIFICATE_PUBLISHER,), b"") is None


@with_controllers()
async def test_a_namespace_is_created_though_populating_it_fails(api):
    namespace_store(api.catalog).populate = namespace_populator(_stranger(api), BOTH, PEM)
    await _ns(api)
    assert not _accounts(api)

    async def fails(request):
        raise OSError("no")

    namespace_store(api.catalog).populate = namespace_populator(InProcessTransport(fails), BOTH, PEM)
    await _ns(api, "other")
    namespace_store(api.catalog).populate = namespace_populator(_Broken(), BOTH, PEM)
    await _ns(api, "third")
    assert not _accounts(api)


class _Broken:
    def acting_as(self, *_):
        return self

    async def request(self, *_):
        raise OSError("no")


# -- afterwards --------------------------------------------------------------------------------------------------------


@with_controllers(add_serviceaccount_controller, add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_missing_objects_are_created(api):
    assert _accounts(api) == _maps(api) == SYSTEM
    await _ns(api)
    await api.run_until_idle()
    assert _accounts(api) == _maps(api) == {*SYSTEM, "probe"}


@with_controllers(add_serviceaccount_controller, add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_controllers_wait_while_a_namespace_is_populated(api):
    _populate(api)
    await api.run_until_idle()
    before = api.revision
    watch = await api.watch("/api/v1/serviceaccounts", resourceVersion=str(before))
    await _ns(api)
    assert api.revision == before + 3
    await api.run_until_idle()
    assert api.revision == before + 3
    assert await watch.brief(1) == [("ADDED", "default")]


@with_controllers(add_serviceaccount_controller, add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_controllers_create_what_population_could_not(api):
    namespace_store(api.catalog).populate = namespace_populator(_stranger(api), BOTH, PEM)
    await _ns(api)
    assert "probe" not in _accounts(api)
    await api.run_until_idle()
    assert "probe" in _accounts(api) & _maps(api)


@with_controllers(add_serviceaccount_controller, add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_deleted_objects_are_created_again_at_once(api):
    await api.delete(f"{NS}/default/serviceaccounts/default")
    await api.delete(f"{NS}/default/configmaps/kube-root-ca.crt")
    await api.run_until_idle(0.1)
    assert "default" in _accounts(api) & _maps(api)


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"ca.crt": "other"}},
        {"data": {"more": "x"}},
        {"data": None},
        {"metadata": {"annotations": None}},
        {"metadata": {"annotations": {"kubernetes.io/description": ""}}},
    ],
    ids=["another", "more", "none", "no annotations", "no description"],
)
def test_a_changed_config_map_is_corrected(change):
    @with_controllers(add_root_ca_certificate_publisher, settings=SETTINGS)
    async def check(api):
        assert (await api.patch(f"{NS}/default/configmaps/kube-root-ca.crt", change)).status == 200
        await api.run_until_idle(0.1)
        found = api.find("configmaps", "default", "kube-root-ca.crt")
        assert found["data"] == {"ca.crt": PEM.decode()}
        assert found["metadata"]["annotations"] == {"kubernetes.io/description": PURPOSE}

    check()


@with_controllers(add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_labels_and_annotations_of_others_are_kept(api):
    path = f"{NS}/default/configmaps/kube-root-ca.crt"
    await api.patch(path, {"metadata": {"labels": {"a": "b"}, "annotations": {"kubernetes.io/description": "mine"}}})
    before = api.revision
    await api.run_until_idle()
    assert api.revision == before
    await api.patch(path, {"data": {"ca.crt": "x"}})
    await api.run_until_idle()
    assert api.find("configmaps", "default", "kube-root-ca.crt")["metadata"]["labels"] == {"a": "b"}


@with_controllers(add_serviceaccount_controller, add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_terminating_namespaces_get_no_objects(api):
    await _ns(api)
    await api.run_until_idle()
    await api.delete(f"{NS}/probe")
    await api.delete(f"{NS}/probe/serviceaccounts/default")
    await api.delete(f"{NS}/probe/configmaps/kube-root-ca.crt")
    await api.run_until_idle()
    assert "probe" not in _accounts(api) | _maps(api)


@with_controllers(add_serviceaccount_controller, add_root_ca_certificate_publisher, settings=SETTINGS)
async def test_nothing_is_written_when_nothing_is_missing(api):
    before = api.revision
    await api.made(f"{NS}/default/configmaps", cm("a"))
    await api.delete(f"{NS}/default/configmaps/a")
    await api.made(f"{NS}/default/serviceaccounts", {"metadata": {"name": "mine"}})
    await api.delete(f"{NS}/default/serviceaccounts/mine")
    await api.run_until_idle(24 * 3600)
    assert api.revision == before + 4


def test_a_new_certificate_is_published_everywhere_at_the_next_start():
    async def main():
        storage = MemoryStorage()
        async with running_controllers(add_root_ca_certificate_publisher, settings=SETTINGS, storage=storage) as api:
            assert _maps(api) == SYSTEM
        async with running_controllers(
            add_root_ca_certificate_publisher, settings=ControllerSettings(authority=b"other"), storage=storage
        ) as api:
            found = [api.find("configmaps", name, "kube-root-ca.crt")["data"] for name in SYSTEM]
            assert found == [{"ca.crt": "other"}] * 4
            before = api.revision
        async with running_controllers(
            add_root_ca_certificate_publisher, settings=ControllerSettings(authority=b"other"), storage=storage
        ) as api:
            assert api.revision == before

    run(main())


@with_controllers(add_root_ca_certificate_publisher)
async def test_nothing_is_published_where_there_is_no_certificate(api):
    await api.run_until_idle()
    assert not _maps(api)
