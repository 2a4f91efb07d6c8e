"""Admission sees every write, with the true old object, and cannot be walked around.

CVE-2016-1905: PATCH skipped admission. CVE-2021-25735: a validating plugin was shown an old object that was not the stored one.
CVE-2025-4563: a rule was kept on update and not on create.
"""

import asyncio
import copy
import functools
import inspect
import json

import pytest
from every_route import NAME, STORED, collection, identify, item, name_of, sub_writes, writes
from valid_objects import make

from api_client import DEPLOY, JSON_PATCH, MERGE, NS, PODS, STRATEGIC, Api, cm, deployment, pod, served
from kapi.api.errors import Forbidden
from kapi.api.meta import GroupResource
from kapi.registry.scale import scale_of
from kapi.server.admission.chain import Admission
from kapi.server.admission.lifecycle import NamespaceLifecycle
from virtual_time import run


def cases(table):
    """A table of cases as parameters."""
    return [pytest.param(case, id=name) for name, case in table.items()]


class Recorder:
    """An admission plugin that records its attributes; on request it refuses, or mutates the old object."""

    def __init__(self):
        self.calls = []
        self.refusing = False
        self.spoil = None

    def handles(self, _operation, _resource, _subresource):
        return True

    async def mutate(self, write, obj, old):
        self._take("mutate", write, obj, old)

    async def validate(self, write, obj, old):
        self._take("validate", write, obj, old)
        if self.spoil is not None and old is not None:
            self.spoil(old)

    def _take(self, phase, write, obj, old):
        self.calls.append((phase, write, copy.deepcopy(obj), copy.deepcopy(old)))
        if self.refusing and phase == self.refusing:
            raise Forbidden.of(GroupResource("", "things"), NAME, "the plugin said no")


def with_plugin(test):
    """Run `test(api, plugin, …)` against a server whose only plugin records."""

    @functools.wraps(test)
    def runner(*args, **kwargs):
        async def main():
            plugin = Recorder()
            api = Api(admission=Admission({"Recorder": plugin}))
            async with asyncio.timeout(24 * 3600):
                await api.start()
                plugin.calls.clear()
                try:
                    await test(api, plugin, *args, **kwargs)
                finally:
                    await api.stop()

        run(main())

    runner.__signature__ = inspect.Signature(list(inspect.signature(test).parameters.values())[2:])
    return runner


async def send(api, route):
    return await api.request(route.method, route.path, route.body, headers={"content-type": route.content_type})


async def expect_refusal(api, plugin, routes):
    """The routes on which the plugin was not asked."""
    silent = []
    for route in routes:
        before = api.revision
        answer = await send(api, route)
        if answer.status != 403 or "the plugin said no" not in answer.text:
            silent.append(f"{route}: {answer.status} {answer.text[:200]}")
        assert api.revision == before, f"{route} wrote past admission"
    return silent


@pytest.mark.parametrize("resource", STORED, ids=identify)
@with_plugin
async def test_cve_2016_1905_every_write_passes_mutating_admission(api, plugin, resource):
    await make(api, resource)
    plugin.refusing = "mutate"
    assert await expect_refusal(api, plugin, writes(resource)) == []


WITH_SUBRESOURCES = {identify(resource): resource for resource in STORED if list(sub_writes(resource))}


@pytest.mark.parametrize("resource", cases(WITH_SUBRESOURCES))
@with_plugin
async def test_cve_2016_1905_every_write_of_a_subresource_passes_mutating_admission(api, plugin, resource):
    await make(api, resource)
    plugin.refusing = "mutate"
    assert await expect_refusal(api, plugin, sub_writes(resource)) == []


@with_plugin
async def test_cve_2016_1905_a_binding_posted_to_the_namespace_passes_admission(api, plugin):
    await api.made(PODS, pod(NAME))
    plugin.refusing = "mutate"
    assert (await api.post(f"{NS}/default/bindings", BINDING)).status == 403


DEPLOYMENT = f"{DEPLOY}/{NAME}"
SCALE = {"metadata": {"name": NAME, "namespace": "default"}, "spec": {"replicas": 3}}
BINDING = {"metadata": {"name": NAME}, "target": {"kind": "Node", "name": "n"}}
VALIDATED = {
    "create": ("POST", DEPLOY, "application/json", deployment("new")),
    "update": ("PUT", DEPLOYMENT, "application/json", deployment(NAME, replicas=2)),
    "merge patch": ("PATCH", DEPLOYMENT, MERGE, {"spec": {"replicas": 2}}),
    "strategic patch": ("PATCH", DEPLOYMENT, STRATEGIC, {"spec": {"replicas": 2}}),
    "json patch": ("PATCH", DEPLOYMENT, JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 2}]),
    "status": ("PUT", f"{DEPLOYMENT}/status", "application/json", {**deployment(NAME), "status": {"replicas": 1}}),
    "status patch": ("PATCH", f"{DEPLOYMENT}/status", MERGE, {"status": {"replicas": 1}}),
    "scale": ("PUT", f"{DEPLOYMENT}/scale", "application/json", SCALE),
    "scale patch": ("PATCH", f"{DEPLOYMENT}/scale", MERGE, {"spec": {"replicas": 3}}),
    "delete": ("DELETE", DEPLOYMENT, "application/json", {}),
    "deletecollection": ("DELETE", DEPLOY, "application/json", {}),
    "binding": ("POST", f"{PODS}/{NAME}/binding", "application/json", BINDING),
    "eviction": ("POST", f"{PODS}/{NAME}/eviction", "application/json", {"metadata": {"name": NAME}}),
}


@pytest.mark.parametrize("case", cases(VALIDATED))
@with_plugin
async def test_cve_2016_1905_every_verb_passes_validating_admission(api, plugin, case):
    await api.made(DEPLOY, deployment(NAME))
    await api.made(PODS, pod(NAME))
    method, path, content_type, body = case
    plugin.refusing = "validate"
    before = api.revision
    answer = await api.request(method, path, body, headers={"content-type": content_type})
    assert answer.status == 403, answer
    assert api.revision == before


@pytest.mark.parametrize("case", cases(VALIDATED))
@with_plugin
async def test_cve_2016_1905_each_phase_runs_once_for_a_write(api, plugin, case):
    await api.made(DEPLOY, deployment(NAME))
    await api.made(PODS, pod(NAME))
    plugin.calls.clear()
    method, path, content_type, body = case
    answer = await api.request(method, path, body, headers={"content-type": content_type})
    assert answer.status in (200, 201), answer
    kind = {"POST": "CREATE", "DELETE": "DELETE"}.get(method, "UPDATE")
    assert [(phase, write.operation) for phase, write, _, _ in plugin.calls] == [
        ("mutate", kind),
        ("validate", kind),
    ]


CONNECTIONS = {
    "exec": (
        f"{PODS}/{NAME}/exec?command=sh&command=-c&container=c&stdin=true&tty=false",
        {"kind": "PodExecOptions", "stdin": True, "container": "c", "command": ["sh", "-c"]},
    ),
    "attach": (
        f"{PODS}/{NAME}/attach?tty=1",
        {"kind": "PodAttachOptions", "tty": True},
    ),
    "portforward": (f"{PODS}/{NAME}/portforward?ports=80", {"kind": "PodPortForwardOptions", "ports": [80]}),
    "pod proxy": (f"{PODS}/{NAME}/proxy/a/b", {"kind": "PodProxyOptions", "path": "/a/b"}),
    "service proxy": (f"{NS}/default/services/{NAME}/proxy", {"kind": "ServiceProxyOptions"}),
    "node proxy": (f"/api/v1/nodes/{NAME}/proxy/metrics", {"kind": "NodeProxyOptions", "path": "/metrics"}),
}


@pytest.mark.parametrize("case", cases(CONNECTIONS))
@with_plugin
async def test_connections_pass_admission_before_they_are_answered(api, plugin, case):
    path, options = case
    await api.made(PODS, pod(NAME))
    for phase in ("mutate", "validate"):
        plugin.calls.clear()
        plugin.refusing = phase
        assert (await api.request("GET", path)).status == 403
        assert [(one, write.operation) for one, write, _, _ in plugin.calls][-1] == (phase, "CONNECT")
    plugin.calls.clear()
    plugin.refusing = False
    answer = await api.request("GET", path)
    assert answer.status == (501 if "/pods/" in path else 404)
    for _, write, obj, old in plugin.calls:
        assert (obj, old) == ({"apiVersion": "v1", **options}, None)
        assert (write.kind.kind, write.name) == (options["kind"], NAME)
        assert (
            write.subresource == path.partition("?")[0].removesuffix("/a/b").removesuffix("/metrics").rpartition("/")[2]
        )


@with_plugin
async def test_delete_shows_mutating_admission_the_stored_object(api, plugin):
    stored = await api.made(DEPLOY, deployment(NAME))
    for path in (DEPLOYMENT, DEPLOY):
        plugin.calls.clear()
        assert (await api.delete(path, dryRun="All")).status == 200
        shown = [(phase, write.operation, write.name, obj, old) for phase, write, obj, old in plugin.calls]
        assert shown == [(phase, "DELETE", NAME, None, stored) for phase in ("mutate", "validate")]
        assert all(write.dry_run for _, write, _, _ in plugin.calls)


# -- CVE-2021-25735


def spoil(old):
    """What a careless plugin may do to the object it was shown for comparison."""
    old["metadata"]["labels"] = {"spoilt": "yes"}
    old["metadata"]["finalizers"] = ["example.com/spoilt"]
    old["metadata"]["annotations"] = {"spoilt": "yes"}
    old["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    for part in ("spec", "status"):
        if part in old:
            old[part].clear()
            old[part]["spoilt"] = True


CHANGES = {
    name: case for name, case in VALIDATED.items() if name not in ("create", "binding", "eviction", "deletecollection")
}
CHANGES["delete in the foreground"] = ("DELETE", DEPLOYMENT, "application/json", {"propagationPolicy": "Foreground"})
CHANGES["a new label"] = ("PATCH", DEPLOYMENT, MERGE, {"metadata": {"labels": {"a": "c"}}})


async def change(case, *, spoiling):
    """What is stored, and what the plugin was shown, when a request is made to a server with a careless plugin."""
    plugin = Recorder()
    api = Api(admission=Admission({"Recorder": plugin}))
    await api.start()
    try:
        obj = deployment(NAME)
        obj["metadata"]["labels"] = {"a": "b"}
        stored = await api.made(DEPLOY, obj)
        await api.patch(f"{DEPLOYMENT}/status", {"status": {"observedGeneration": 1, "conditions": []}})
        stored = (await api.get(DEPLOYMENT)).json
        plugin.calls.clear()
        plugin.spoil = spoil if spoiling else None
        method, path, content_type, body = case
        answer = await api.request(method, path, body, headers={"content-type": content_type})
        assert answer.status in (200, 202), answer
        plugin.spoil = None
        return stored, plugin.calls, await api.get(DEPLOYMENT)
    finally:
        await api.stop()


def comparable(answer):
    """An object without what differs from one server to the next."""
    text = json.loads(answer.raw)
    for key in ("uid", "creationTimestamp", "deletionTimestamp"):
        text["metadata"].pop(key, None)
    return answer.status, text


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_cve_2021_25735_validating_admission_is_shown_the_stored_object(case):
    stored, calls, _ = run(change(case, spoiling=False))
    (call,) = [one for one in calls if one[0] == "validate"]
    # Admission of a Scale is shown the Scale of the stored object.
    assert call[3] == (scale_of(stored) if case[1].endswith("/scale") else stored)


@pytest.mark.parametrize("case", cases(CHANGES))
def test_cve_2021_25735_changes_of_the_old_object_have_no_effect(case):
    clean = run(change(case, spoiling=False))[2]
    spoilt = run(change(case, spoiling=True))[2]
    assert b"spoilt" not in spoilt.raw
    assert comparable(spoilt) == comparable(clean)


# -- CVE-2025-4563

NAMESPACED = [resource for resource in STORED if resource.namespaced]


async def creations(api, resource, namespace):
    """All ways to create an object: POST, and PUT for kinds where that creates."""
    path = collection(resource, namespace)
    body = {"metadata": {"name": name_of(resource)}}
    yield await api.post(path, body)
    yield await api.post(path, body, dryRun="All")
    yield await api.post(path, {"metadata": {"generateName": NAME}})
    if resource.store.strategy.allow_create_on_update:
        yield await api.put(item(resource, namespace), body)


@pytest.mark.parametrize("resource", NAMESPACED, ids=identify)
@served
async def test_cve_2025_4563_nothing_is_created_in_a_missing_or_terminating_namespace(api, resource):
    await api.made(NS, {"metadata": {"name": "going", "finalizers": ["example.com/wait"]}})
    assert (await api.delete(f"{NS}/going")).status == 200
    before = api.revision
    async for answer in creations(api, resource, "missing"):
        assert answer.error == (404, "NotFound", 'namespaces "missing" not found')
    async for answer in creations(api, resource, "going"):
        assert answer.error[:2] == (403, "Forbidden")
        assert "because it is being terminated" in answer.message
    assert api.revision == before


@served
async def test_cve_2025_4563_the_namespace_lifecycle_plugin_refuses(api):
    """The control: without the plugin the same requests go through."""
    api.services.admission = Admission({})
    assert (await api.post(f"{NS}/missing/configmaps", cm("a"))).status == 201
    assert NamespaceLifecycle(api.catalog).handles is not None
