"""Local APIServices: for built-in group versions at the start, for custom ones as definitions come and go."""

import asyncio
import contextlib

from api_client import served
from kapi.controlplane.apiservices import PATH, ApiServiceRegistration

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = f"{DEFINITIONS}/things.example.com"


def definition(*versions):
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": name, "served": True, "storage": name == versions[0], "schema": schema} for name in versions
            ],
        },
    }


@contextlib.asynccontextmanager
async def registering(api):
    """A registration that runs."""
    registration = ApiServiceRegistration(api.transport, api.catalog)
    await registration.register_built_in()
    task = asyncio.ensure_future(registration.run())
    await asyncio.sleep(1)
    try:
        yield
    finally:
        task.cancel()


async def custom(api):
    """The names of the APIServices of custom groups, once they had a second to follow."""
    await asyncio.sleep(1)
    return [name for name in (await api.get(PATH)).names if name.endswith("example.com")]


@served
async def test_every_built_in_group_version_has_an_available_api_service(api):
    await ApiServiceRegistration(api.transport, api.catalog).register_built_in()
    items = {item["metadata"]["name"]: item for item in (await api.get(PATH))["items"]}
    served_here = {f"{version}.{group}" for group, versions in api.catalog.groups.items() for version in versions}
    assert items.keys() == served_here - {"v1.apiregistration.k8s.io"}
    for item in items.values():
        (condition,) = item["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    assert items["v1."]["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert items["v2.autoscaling"]["spec"]["versionPriority"] == 30
    # None has the priority of custom groups: a group that is added to the server needs a row in the table.
    assert all(item["spec"]["groupPriorityMinimum"] > 1000 for item in items.values())


@served
async def test_second_start_writes_nothing(api):
    await ApiServiceRegistration(api.transport, api.catalog).register_built_in()
    before = api.revision
    await ApiServiceRegistration(api.transport, api.catalog).register_built_in()
    assert api.revision == before


@served
async def test_custom_group_versions_follow_their_definitions(api):
    async with registering(api):
        await api.made(DEFINITIONS, definition("v1", "v1alpha1"))
        assert await custom(api) == ["v1.example.com", "v1alpha1.example.com"]
        item = (await api.get(f"{PATH}/v1.example.com")).json
        assert item["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
        assert item["spec"] == {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 100,
        }
        versions = definition("v1")["spec"]["versions"]
        assert (await api.patch(THINGS, {"spec": {"versions": versions}})).status == 200
        assert await custom(api) == ["v1.example.com"]
        await api.delete(THINGS)
        assert await custom(api) == []


@served
async def test_custom_api_service_that_is_deleted_is_created_again(api):
    async with registering(api):
        await api.made(DEFINITIONS, definition("v1"))
        assert await custom(api) == ["v1.example.com"]
        await api.delete(f"{PATH}/v1.example.com")
        assert await custom(api) == ["v1.example.com"]


@served
async def test_built_in_and_foreign_api_services_are_left_alone(api):
    async with registering(api):
        await api.delete(f"{PATH}/v1.apps")
        spec = {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        await api.made(PATH, {"metadata": {"name": "v1.a.example.com"}, "spec": spec})
        assert await custom(api) == ["v1.a.example.com"]
        assert (await api.get(f"{PATH}/v1.apps")).status == 404


@served
async def test_failed_write_is_tried_again(api):
    async with registering(api):
        refused = [503, 503]
        request = api.transport.request

        async def failing(method, target, *rest):
            if method == "POST" and target == PATH and refused:
                refused.pop()
                return await request("GET", "/nope")
            return await request(method, target, *rest)

        api.transport.request = failing
        await api.made(DEFINITIONS, definition("v1"))
        await asyncio.sleep(20)
        assert not refused
        assert await custom(api) == ["v1.example.com"]
