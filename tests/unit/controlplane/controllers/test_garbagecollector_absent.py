"""Owners that the view lacks: the garbage collector reads them through the API before it deletes a dependent."""

import pytest

from api_client import CM, cm
from controller_api import running_controllers, with_controllers
from kapi.controlplane.controllers.garbagecollector.collector import GarbageCollector, add_garbage_collector
from kapi.controlplane.controllers.writer import Writer
from kapi.storage.memory import MemoryStorage
from owned_objects import blocking, names, owned, owners, reference
from virtual_time import run


class LaggingView:
    """A view that has not taken in some objects yet, as when another server wrote them."""

    def __init__(self, view, hidden):
        self._view = view
        self._hidden = hidden

    def __getattr__(self, name):
        return getattr(self._view, name)

    def at(self, key):
        return None if key.rpartition("/")[2] in self._hidden else self._view.at(key)


def lagging(*hidden):
    """A garbage collector whose view lacks objects of some names."""

    def add(context):
        context.view = LaggingView(context.view, hidden)
        add_garbage_collector(context)

    return add


@pytest.fixture
def reads(monkeypatch):
    """The names of the owners that were read through the API."""
    seen, read = [], Writer.read_metadata

    async def recorded(self, resource, namespace, name):
        seen.append(name)
        return await read(self, resource, namespace, name)

    monkeypatch.setattr(Writer, "read_metadata", recorded)
    return seen


async def child_of_an_owner_that_the_view_lacks(api):
    owner = await api.made(CM, cm("owner"))
    await api.made(CM, owned("child", reference(owner)))
    await api.run_until_idle()


@with_controllers(lagging("owner"))
async def test_a_dependent_is_kept_if_the_store_has_its_owner(api):
    await child_of_an_owner_that_the_view_lacks(api)
    assert names(api) == {"owner", "child"}
    assert owners(api, "child") == ["owner"]


def test_a_collector_that_trusts_its_view_deletes_the_dependent(monkeypatch):
    """The planted bug that the test above catches."""

    async def read(self, item, owner):
        return None

    monkeypatch.setattr(GarbageCollector, "_read_owner", read)

    @with_controllers(lagging("owner"))
    async def check(api):
        await child_of_an_owner_that_the_view_lacks(api)
        assert names(api) == {"owner"}

    check()


@with_controllers(lagging("owner"))
async def test_only_absent_owners_are_removed_from_the_references(api):
    owner = await api.made(CM, cm("owner"))
    lost = reference(owner) | {"name": "lost", "uid": "lost"}
    await api.made(CM, owned("child", reference(owner), lost))
    await api.run_until_idle()
    assert owners(api, "child") == ["owner"]


@with_controllers(lagging("owner"))
async def test_an_object_of_the_same_name_with_another_uid_is_not_the_owner(api):
    owner = await api.made(CM, cm("owner"))
    await api.made(CM, owned("child", reference(owner) | {"uid": "former"}))
    await api.run_until_idle()
    assert names(api) == {"owner"}


@with_controllers(lagging("owner"))
async def test_a_dependent_is_deleted_if_its_owner_waits_for_it(api):
    owner = await api.made(CM, cm("owner"))
    await api.delete(f"{CM}/owner", propagationPolicy="Foreground")
    await api.made(CM, owned("child", blocking(owner)))
    await api.run_until_idle()
    assert names(api) == {"owner"}


def test_an_owner_whose_deletion_was_seen_is_not_read(reads):
    @with_controllers(add_garbage_collector)
    async def check(api):
        owner = await api.made(CM, cm("owner"))
        await api.made(CM, owned("child", reference(owner)))
        await api.delete(f"{CM}/owner")
        await api.run_until_idle()
        assert names(api) == set()
        assert reads == []

    check()


def test_an_owner_that_was_deleted_before_the_start_is_not_read_for_every_dependent(reads):
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            owner = await api.made(CM, cm("owner"))
            for number in range(300):
                await api.made(CM, owned(f"child-{number}", reference(owner)))
            await api.delete(f"{CM}/owner")
        async with running_controllers(add_garbage_collector, storage=storage) as api:
            await api.run_until_idle()
            assert names(api) == set()
            assert set(reads) == {"owner"}
            assert len(reads) < 100

    run(main())
