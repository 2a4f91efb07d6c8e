"""What every namespace has: put in by its creation, and put back when it is gone or wrong."""

import pytest

from api_client import NS, cm
from kapi.controlplane.controllers.furnish import (
    ACCOUNTS,
    AUTHORITY,
    furnisher,
    keep_accounts,
    namespace_store,
    publish_authority,
)
from kapi.controlplane.controllers.house import Settings
from kapi.server.transport.inprocess import InProcessTransport
from kapi.storage.memory import MemoryStorage
from kept_house import keeping, kept
from virtual_time import run

PEM = b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
BOTH = (ACCOUNTS, AUTHORITY)
SETTINGS = Settings(authority=PEM)
PURPOSE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
SYSTEM = {"default", "kube-system", "kube-public", "kube-node-lease"}


def _furnished(api, controllers=BOTH, authority=PEM):
    """From now on, namespaces are furnished."""
    namespace_store(api.catalog).furnish = furnisher(api.transport, controllers, authority)


async def _ns(api, name="probe"):
    return await api.made(NS, {"metadata": {"name": name}})


def _accounts(api):
    return {namespace for namespace, name in api.there("serviceaccounts") if name == "default"}


def _maps(api):
    return {namespace for namespace, name in api.there("configmaps") if name == "kube-root-ca.crt"}


# -- with the creation ------------------------------------------------------------------------------------------------


@kept()
async def test_new_namespace_is_furnished_when_its_creator_hears(api):
    _furnished(api)
    await _ns(api)
    account = api.find("serviceaccounts", "probe", "default")
    assert account.keys() == {"apiVersion", "kind", "metadata"}
    published = api.find("configmaps", "probe", "kube-root-ca.crt")
    assert published["data"] == {"ca.crt": PEM.decode()}
    assert published["metadata"]["annotations"] == {"kubernetes.io/description": PURPOSE}
    (entry,) = published["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kube-controller-manager", "Update")


@kept()
async def test_generated_names_are_furnished_too(api):
    _furnished(api)
    made = await api.made(NS, {"metadata": {"generateName": "gen-"}})
    assert _accounts(api) == _maps(api) == {made["metadata"]["name"]}


@kept()
async def test_dry_run_furnishes_nothing(api):
    _furnished(api)
    before = api.revision
    assert (await api.post(NS, {"metadata": {"name": "probe"}}, dryRun="All")).status == 201
    assert api.revision == before


@kept()
async def test_namespace_that_is_refused_furnishes_nothing(api):
    _furnished(api)
    before = api.revision
    assert (await api.post(NS, {"metadata": {"name": "default"}})).status == 409
    assert (await api.post(NS, {"metadata": {"name": "a.b"}})).status == 422
    assert api.revision == before
    assert not namespace_store(api.catalog).furnishing


@kept()
async def test_changes_of_a_namespace_furnish_nothing(api):
    _furnished(api)
    before = api.revision
    await api.patch(f"{NS}/default", {"metadata": {"labels": {"a": "b"}}})
    assert api.revision == before + 1


@pytest.mark.parametrize(
    ("controllers", "authority", "accounts", "maps"),
    [
        (BOTH, PEM, {"probe"}, {"probe"}),
        ((ACCOUNTS,), PEM, {"probe"}, set()),
        ((AUTHORITY,), PEM, set(), {"probe"}),
        (BOTH, b"", {"probe"}, set()),
        ((), PEM, set(), set()),
    ],
    ids=["both", "accounts", "authority", "no authority", "neither"],
)
def test_what_is_switched_off_is_not_furnished(controllers, authority, accounts, maps):
    @kept()
    async def check(api):
        _furnished(api, controllers, authority)
        await _ns(api)
        assert (_accounts(api), _maps(api)) == (accounts, maps)

    check()


def test_nothing_to_furnish_is_no_furnisher():
    assert furnisher(None, (), PEM) is None
    assert furnisher(None, (AUTHORITY,), b"") is None


@kept()
async def test_namespace_is_there_although_it_could_not_be_furnished(api):
    stranger = InProcessTransport(api.pipeline, "eve", ())
    namespace_store(api.catalog).furnish = furnisher(stranger, BOTH, PEM)
    await _ns(api)
    assert not _accounts(api)

    async def fails(request):
        raise OSError("no")

    namespace_store(api.catalog).furnish = furnisher(InProcessTransport(fails), BOTH, PEM)
    await _ns(api, "other")
    namespace_store(api.catalog).furnish = furnisher(_Broken(), BOTH, PEM)
    await _ns(api, "third")
    assert not _accounts(api)


class _Broken:
    async def request(self, *_):
        raise OSError("no")


# -- afterwards --------------------------------------------------------------------------------------------------------


@kept(keep_accounts, publish_authority, settings=SETTINGS)
async def test_namespaces_that_lack_something_get_it(api):
    assert _accounts(api) == _maps(api) == SYSTEM
    await _ns(api)
    await api.settled()
    assert _accounts(api) == _maps(api) == {*SYSTEM, "probe"}


@kept(keep_accounts, publish_authority, settings=SETTINGS)
async def test_creation_is_not_raced(api):
    _furnished(api)
    await api.settled()
    before = api.revision
    watch = await api.watch("/api/v1/serviceaccounts", resourceVersion=str(before))
    await _ns(api)
    assert api.revision == before + 3
    await api.settled()
    assert api.revision == before + 3
    assert await watch.brief(1) == [("ADDED", "default")]


@kept(keep_accounts, publish_authority, settings=SETTINGS)
async def test_what_creation_missed_is_made_up_for(api):
    stranger = InProcessTransport(api.pipeline, "eve", ())
    namespace_store(api.catalog).furnish = furnisher(stranger, BOTH, PEM)
    await _ns(api)
    assert "probe" not in _accounts(api)
    await api.settled()
    assert "probe" in _accounts(api) & _maps(api)


@kept(keep_accounts, publish_authority, settings=SETTINGS)
async def test_what_is_deleted_comes_back_at_once(api):
    await api.delete(f"{NS}/default/serviceaccounts/default")
    await api.delete(f"{NS}/default/configmaps/kube-root-ca.crt")
    await api.settled(0.1)
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
def test_what_is_wrong_is_corrected(change):
    @kept(publish_authority, settings=SETTINGS)
    async def check(api):
        assert (await api.patch(f"{NS}/default/configmaps/kube-root-ca.crt", change)).status == 200
        await api.settled(0.1)
        found = api.find("configmaps", "default", "kube-root-ca.crt")
        assert found["data"] == {"ca.crt": PEM.decode()}
        assert found["metadata"]["annotations"] == {"kubernetes.io/description": PURPOSE}

    check()


@kept(publish_authority, settings=SETTINGS)
async def test_what_others_add_to_it_stays(api):
    path = f"{NS}/default/configmaps/kube-root-ca.crt"
    await api.patch(path, {"metadata": {"labels": {"a": "b"}, "annotations": {"kubernetes.io/description": "mine"}}})
    before = api.revision
    await api.settled()
    assert api.revision == before
    await api.patch(path, {"data": {"ca.crt": "x"}})
    await api.settled()
    assert api.find("configmaps", "default", "kube-root-ca.crt")["metadata"]["labels"] == {"a": "b"}


@kept(keep_accounts, publish_authority, settings=SETTINGS)
async def test_namespaces_on_their_way_out_get_nothing(api):
    await _ns(api)
    await api.settled()
    await api.delete(f"{NS}/probe")
    await api.delete(f"{NS}/probe/serviceaccounts/default")
    await api.delete(f"{NS}/probe/configmaps/kube-root-ca.crt")
    await api.settled()
    assert "probe" not in _accounts(api) | _maps(api)


@kept(keep_accounts, publish_authority, settings=SETTINGS)
async def test_nothing_is_written_when_nothing_is_wrong(api):
    before = api.revision
    await api.made(f"{NS}/default/configmaps", cm("a"))
    await api.delete(f"{NS}/default/configmaps/a")
    await api.made(f"{NS}/default/serviceaccounts", {"metadata": {"name": "mine"}})
    await api.delete(f"{NS}/default/serviceaccounts/mine")
    await api.settled(24 * 3600)
    assert api.revision == before + 4


def test_another_authority_is_published_everywhere_at_the_next_start():
    async def main():
        storage = MemoryStorage()
        async with keeping(publish_authority, settings=SETTINGS, storage=storage) as api:
            assert _maps(api) == SYSTEM
        async with keeping(publish_authority, settings=Settings(authority=b"other"), storage=storage) as api:
            found = [api.find("configmaps", name, "kube-root-ca.crt")["data"] for name in SYSTEM]
            assert found == [{"ca.crt": "other"}] * 4
            before = api.revision
        async with keeping(publish_authority, settings=Settings(authority=b"other"), storage=storage) as api:
            assert api.revision == before

    run(main())


@kept(publish_authority)
async def test_nothing_is_published_where_there_is_no_certificate(api):
    await api.settled()
    assert not _maps(api)
