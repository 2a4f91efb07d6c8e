"""Initializers: new objects that stay invisible until a list of controllers has finished them."""

import asyncio

import pytest

from api_client import APPLY, CM, JSON_PATCH, MERGE, NS, STRATEGIC, Api, cm, served, serving
from controller_api import with_controllers
from custom_kinds import CRDS, GROUP, WIDGETS, definition, widget
from kapi.controlplane.controllers.namespace.controller import add_namespace_controller
from kapi.storage.memory import MemoryStorage
from virtual_time import run

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations"
ENVOY = "envoy.initializer.example.com"
OTHER = "other.initializer.example.com"
PODS = f"{NS}/default/pods"
ALL = {"includeUninitialized": "true"}


def configuration(name="envoy", *initializers, resources=("configmaps",), groups=("",), versions=("v1",)):
    rules = [{"apiGroups": list(groups), "apiVersions": list(versions), "resources": list(resources)}]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1alpha1",
        "kind": "InitializerConfiguration",
        "metadata": {"name": name},
        "initializers": [{"name": one, "rules": rules} for one in initializers or (ENVOY,)],
    }


async def begun(api, obj, path=CM):
    """Begin to create an object; returns the request under way once the object is stored."""
    request = asyncio.ensure_future(api.post(path, obj))
    name = obj["metadata"]["name"]
    while (await api.get(f"{path}/{name}", **ALL)).status != 200:
        assert not request.done(), request.result()
        await asyncio.sleep(0)
    return request


async def events_of(watch, name):
    """The events of one object, up to one of an object `end` that is created after it."""
    found = []
    while True:
        event = await watch.next()
        if event["object"]["metadata"]["name"] == "end":
            return found
        if event["object"]["metadata"]["name"] == name:
            found.append(event)


async def end(api):
    await api.made(CM, {**cm("end"), "metadata": {"name": "end", "initializers": {}}})


def done(pending=()):
    return {"metadata": {"initializers": {"pending": [{"name": name} for name in pending]} if pending else None}}


@served
async def test_an_object_is_invisible_until_its_initializers_are_done(api):
    await api.made(CONFIGURATIONS, configuration("envoy", ENVOY, OTHER))
    start = (await api.get(CM))["metadata"]["resourceVersion"]
    request = await begun(api, cm("a", data={"k": "v"}))
    assert (await api.get(f"{CM}/a")).error == (404, "NotFound", 'configmaps "a" not found')
    assert "a" not in (await api.get(CM)).names
    assert "a" in (await api.get(CM, **ALL)).names
    hidden = (await api.get(f"{CM}/a", **ALL)).json
    assert hidden["metadata"]["initializers"] == {"pending": [{"name": ENVOY}, {"name": OTHER}]}
    assert (await api.patch(f"{CM}/a", done([OTHER]), MERGE)).status == 200
    assert not request.done()
    assert (await api.patch(f"{CM}/a", {**done(), "data": {"added": "yes"}}, MERGE)).status == 200
    answer = await request
    assert answer.status == 201
    assert answer["data"] == {"k": "v", "added": "yes"}
    assert "initializers" not in answer["metadata"]
    assert (await api.get(f"{CM}/a")).status == 200
    # For a watcher it is created now, and in one step.
    await end(api)
    mine = await events_of(await api.watch(CM, resourceVersion=start), "a")
    assert [event["type"] for event in mine] == ["ADDED"]
    assert mine[0]["object"]["data"] == {"k": "v", "added": "yes"}
    mine = await events_of(await api.watch(CM, resourceVersion=start, **ALL), "a")
    assert [event["type"] for event in mine] == ["ADDED", "MODIFIED", "MODIFIED"]


@served
async def test_a_watch_that_was_open_before_the_configuration_hides_objects_too(api):
    start = (await api.get(CM))["metadata"]["resourceVersion"]
    watch = await api.watch(CM, resourceVersion=start)
    await api.made(CONFIGURATIONS, configuration())
    request = await begun(api, cm("a"))
    await api.patch(f"{CM}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await api.patch(f"{CM}/a", done(), MERGE)
    assert (await request).status == 201
    await end(api)
    mine = await events_of(watch, "a")
    assert [event["type"] for event in mine] == ["ADDED"]
    assert mine[0]["object"]["metadata"]["labels"] == {"x": "y"}


@served
async def test_a_configuration_takes_effect_at_once_and_its_deletion_too(api):
    assert (await api.post(CM, cm("before"))).status == 201
    await api.made(CONFIGURATIONS, configuration())
    assert (await api.post(CM, cm("during"), **ALL))["metadata"]["initializers"]["pending"] == [{"name": ENVOY}]
    assert (await api.post(f"{NS}/default/secrets", {"metadata": {"name": "other-kind"}})).status == 201
    assert (await api.delete(f"{CONFIGURATIONS}/envoy")).status == 200
    assert (await api.post(CM, cm("after"))).status == 201
    # What waits still can be finished.
    assert (await api.patch(f"{CM}/during", done(), MERGE)).status == 200
    assert (await api.get(f"{CM}/during")).status == 200


@served
async def test_initializers_of_several_configurations_come_in_the_order_of_names(api):
    await api.made(CONFIGURATIONS, configuration("b", OTHER, ENVOY))
    await api.made(CONFIGURATIONS, configuration("a", "first.initializer.example.com", ENVOY))
    created = await api.post(CM, cm("a"), **ALL)
    pending = [one["name"] for one in created["metadata"]["initializers"]["pending"]]
    assert pending == ["first.initializer.example.com", ENVOY, OTHER]


@served
async def test_an_initializer_fails_an_object_with_a_result(api):
    await api.made(CONFIGURATIONS, configuration())
    request = await begun(api, cm("a"))
    result = {"status": "Failure", "message": "no sidecar for you", "reason": "Forbidden", "code": 403}
    patch = {"metadata": {"initializers": {"pending": [{"name": ENVOY}], "result": result}}}
    assert (await api.patch(f"{CM}/a", patch, MERGE)).status == 200
    assert (await request).error == (403, "Forbidden", "no sidecar for you")
    assert (await api.get(f"{CM}/a", **ALL)).status == 404


@served
async def test_a_creation_ends_when_its_time_is_up_and_the_object_stays(api):
    await api.made(CONFIGURATIONS, configuration())
    answer = await api.post(CM, cm("a"))
    assert answer.error[:2] == (504, "Timeout")
    assert "timed out waiting for the initialization of configmaps a" in answer.message
    assert (await api.get(f"{CM}/a", **ALL)).status == 200


@served
async def test_deleting_an_uninitialized_object_ends_its_creation(api):
    await api.made(CONFIGURATIONS, configuration())
    request = await begun(api, cm("a"))
    assert (await api.delete(f"{CM}/a")).status == 200
    assert (await request).error == (404, "NotFound", 'configmaps "a" not found')


@with_controllers(add_namespace_controller)
async def test_a_dead_initializer_does_not_keep_a_namespace(api):
    await api.made(CONFIGURATIONS, configuration())
    await api.made(NS, {"metadata": {"name": "probe"}})
    hidden = CM.replace("default", "probe")
    await api.post(hidden, cm("a"), **ALL)
    assert (await api.delete(hidden)).status == 200
    assert (await api.get(f"{hidden}/a", **ALL)).status == 200
    await api.delete(f"{NS}/probe")
    await api.run_until_idle()
    assert (await api.get(f"{NS}/probe")).status == 404


PATCHES = {
    "merge": (MERGE, done([OTHER])),
    "strategic merge": (
        STRATEGIC,
        {
            "metadata": {
                "initializers": {
                    "$setElementOrder/pending": [{"name": OTHER}],
                    "pending": [{"$patch": "delete", "name": ENVOY}],
                }
            }
        },
    ),
    "JSON": (JSON_PATCH, [{"op": "remove", "path": "/metadata/initializers/pending/0"}]),
}


@pytest.mark.parametrize("name", PATCHES)
@served
async def test_every_kind_of_patch_can_remove_a_name(api, name):
    await api.made(CONFIGURATIONS, configuration("envoy", ENVOY, OTHER))
    await api.post(CM, cm("a", data={"k": "v"}), **ALL, fieldManager="m")
    media, body = PATCHES[name]
    answer = await api.patch(f"{CM}/a", body, media, fieldManager="n")
    assert answer.status == 200, answer
    assert answer["metadata"]["initializers"] == {"pending": [{"name": OTHER}]}
    assert all("f:initializers" not in str(entry) for entry in answer["metadata"]["managedFields"])


@served
async def test_an_apply_leaves_the_list_alone(api):
    await api.made(CONFIGURATIONS, configuration())
    await api.post(CM, cm("a"), **ALL)
    applied = {**cm("a", data={"k": "v"}), "apiVersion": "v1", "kind": "ConfigMap"}
    answer = await api.patch(f"{CM}/a", applied, APPLY, fieldManager="m")
    assert answer.status == 200, answer
    assert answer["metadata"]["initializers"] == {"pending": [{"name": ENVOY}]}


@served
async def test_a_write_of_the_status_leaves_the_list_alone(api):
    await api.made(CONFIGURATIONS, configuration(resources=("pods",)))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    created = (await api.post(PODS, pod, **ALL)).json
    del created["metadata"]["initializers"]
    answer = await api.put(f"{PODS}/p/status", {**created, "status": {"phase": "Running"}})
    assert answer.status == 200, answer
    assert answer["metadata"]["initializers"] == {"pending": [{"name": ENVOY}]}


@served
async def test_an_initializer_may_add_containers(api):
    await api.made(CONFIGURATIONS, configuration(resources=("pods",)))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    request = await begun(api, pod, PODS)
    added = {"spec": {"containers": [{"name": "envoy", "image": "e"}]}}
    assert (await api.patch(f"{PODS}/p", {**added, **done()}, STRATEGIC)).status == 200
    answer = await request
    assert answer.status == 201
    assert {one["name"] for one in answer["spec"]["containers"]} == {"c", "envoy"}
    # From now on it is an ordinary Pod.
    more = {"spec": {"containers": [{"name": "another", "image": "e"}]}}
    assert (await api.patch(f"{PODS}/p", more, STRATEGIC)).error[:2] == (422, "Invalid")


def container(name, **fields):
    return {"name": name, "image": "i", **fields}


async def initialized_with(api, *containers):
    """A Pod of one plain container that an initializer adds some to: the answers to the patch and to the creation."""
    await api.made(CONFIGURATIONS, configuration(resources=("pods",)))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container("c", resources=SOME_CPU)]}}
    request = await begun(api, pod, PODS)
    patch = await api.patch(f"{PODS}/p", {"spec": {"containers": list(containers)}, **done()}, STRATEGIC)
    if patch.status != 200:
        await api.delete(f"{PODS}/p")
    return patch, await request


SOME_CPU = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


@served
async def test_what_an_initializer_adds_is_charged_to_quotas(api):
    quota = await api.made(f"{NS}/default/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "3"}}})
    quota["status"] = {"hard": {"cpu": "3"}, "used": {"cpu": "0"}}
    assert (await api.put(f"{NS}/default/resourcequotas/q/status", quota)).status == 200
    patch, answer = await initialized_with(api, container("more", resources=SOME_CPU))
    assert (patch.status, answer.status) == (200, 201)
    status = (await api.get(f"{NS}/default/resourcequotas/q"))["status"]
    assert status["used"] == {"cpu": "2"}
    one = {"metadata": {"name": "q"}, "spec": {"containers": [container("c", resources=SOME_CPU)]}}
    request = await begun(api, one, PODS)
    more = {"spec": {"containers": [container("more", resources=SOME_CPU)]}}
    patch = await api.patch(f"{PODS}/q", more, STRATEGIC)
    assert patch.status == 403
    assert "exceeded quota: q, requested: cpu=1, used: cpu=3, limited: cpu=3" in patch.message
    request.cancel()


@served
async def test_a_limit_range_is_for_the_containers_of_initializers_too(api):
    limit = {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "2"}}
    await api.made(f"{NS}/default/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    _, answer = await initialized_with(api, container("default"))
    by_name = {one["name"]: one["resources"] for one in answer["spec"]["containers"]}
    assert by_name["default"]["limits"] == {"cpu": "500m"}
    await api.delete(f"{PODS}/p")
    request = await begun(api, {"metadata": {"name": "q"}, "spec": {"containers": [container("c")]}}, PODS)
    much = container("much", resources={"limits": {"cpu": "3"}})
    patch = await api.patch(f"{PODS}/q", {"spec": {"containers": [much]}}, STRATEGIC)
    assert patch.status == 403
    assert "maximum cpu usage per Container is 2, but limit is 3" in patch.message
    request.cancel()


@served
async def test_pod_security_is_for_the_work_of_initializers_too(api):
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    assert (await api.patch(f"{NS}/default", label, MERGE)).status == 200
    privileged = {"name": "c", "securityContext": {"privileged": True}}  # the container of the user, changed
    patch, answer = await initialized_with(api, privileged)
    assert patch.status == 403
    assert 'violates PodSecurity "baseline:latest": privileged' in patch.message
    assert answer.status == 404


@served
async def test_a_pod_is_as_if_it_had_been_created_with_what_initializers_add(api):
    _, answer = await initialized_with(api, container("plain"))
    assert answer["metadata"]["generation"] == 1
    assert answer["status"] == {"phase": "Pending", "qosClass": "Burstable"}


@served
async def test_custom_objects_have_initializers_too(api):
    await api.made(CRDS, definition())
    await api.made(CONFIGURATIONS, configuration(resources=("widgets",), groups=(GROUP,), versions=("*",)))
    request = await begun(api, widget(spec={"size": 1}), WIDGETS)
    name = widget()["metadata"]["name"]
    assert (await api.patch(f"{WIDGETS}/{name}", done(), MERGE)).status == 200
    assert (await request).status == 201
    assert (await api.get(WIDGETS)).names == [name]


# -- who may ---------------------------------------------------------------------------------------------------------


def test_who_may_update_may_not_initialize():
    async def main():
        async with serving() as api:
            await api.made(CONFIGURATIONS, configuration())
            role = {
                "metadata": {"name": "edit"},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]}],
            }
            roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
            await api.made(f"{roles}/roles", role)
            binding = {
                "metadata": {"name": "edit"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "edit"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "editor"}],
            }
            await api.made(f"{roles}/rolebindings", binding)
            editor = api.user("editor")
            created = await api.request("POST", CM, cm("a"), transport=editor, **ALL)
            assert created.status == 201, created
            headers = {"content-type": MERGE}
            refused = await api.request("PATCH", f"{CM}/a", done(), headers=headers, transport=editor)
            assert refused.error[:2] == (403, "Forbidden")
            assert refused.message.startswith('configmaps "a" is forbidden: update to uninitialized resource denied: ')
            chosen = {"metadata": {"name": "b", "initializers": {"pending": []}}}
            refused = await api.request("POST", CM, chosen, transport=editor)
            assert refused.error[:2] == (403, "Forbidden")
            assert "create with initializers denied: " in refused.message
            role["rules"][0]["verbs"].append("initialize")
            await api.put(f"{roles}/roles/edit", role)
            assert (await api.request("PATCH", f"{CM}/a", done(), headers=headers, transport=editor)).status == 200
            assert (await api.request("POST", CM, chosen, transport=editor)).status == 201

    run(main())


# -- bad input -------------------------------------------------------------------------------------------------------


@served
async def test_a_name_needs_two_dots(api):
    answer = await api.post(CONFIGURATIONS, configuration("a", "envoy.io"))
    assert answer.error[:2] == (422, "Invalid")
    assert "should be a domain with at least three segments separated by dots" in answer.message
    answer = await api.post(CONFIGURATIONS, configuration("a", resources=["pods/status"]))
    assert "must not specify subresources" in answer.message


@served
async def test_without_a_configuration_the_field_is_unknown(api):
    obj = cm("a")
    obj["metadata"]["initializers"] = {"pending": [{"name": ENVOY}]}
    strict = await api.post(CM, obj, fieldValidation="Strict")
    assert 'unknown field "metadata.initializers"' in strict.message
    created = await api.made(CM, obj)
    assert "initializers" not in created["metadata"]


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"pending": "no"}, 422),
        ({"pending": [{"name": "not a name"}]}, 422),
        ({"pending": [{"name": 3}]}, 422),
        ({"pending": [{"name": ENVOY}], "result": {"status": "Success"}}, 422),
        (["no"], 422),
    ],
)
@served
async def test_a_wrong_list_is_refused(api, patch, status):
    await api.made(CONFIGURATIONS, configuration())
    await api.post(CM, cm("a"), **ALL)
    answer = await api.patch(f"{CM}/a", {"metadata": {"initializers": patch}}, MERGE)
    assert answer.status == status, answer
    assert (await api.get(f"{CM}/a", **ALL))["metadata"]["initializers"] == {"pending": [{"name": ENVOY}]}


@served
async def test_an_initialized_object_cannot_be_uninitialized(api):
    await api.made(CM, cm("a"))
    await api.made(CONFIGURATIONS, configuration(resources=("secrets",)))
    answer = await api.patch(f"{CM}/a", done([ENVOY]), MERGE)
    assert answer.error[:2] == (422, "Invalid")
    assert "field is immutable once initialization has completed" in answer.message


def test_hidden_objects_stay_hidden_after_a_restart():
    async def main():
        storage = MemoryStorage()
        async with serving(storage) as api:
            await api.made(CONFIGURATIONS, configuration())
            await api.post(CM, cm("a"), **ALL)
        async with serving(storage) as api:
            assert "a" not in (await api.get(CM)).names
            assert (await api.get(f"{CM}/a")).status == 404
            assert (await api.patch(f"{CM}/a", done(), MERGE)).status == 200
            assert "a" in (await api.get(CM)).names

    run(main())


def test_nothing_is_hidden_or_counted_while_there_is_no_configuration():
    async def main():
        api = Api()
        await api.start()
        await api.made(CM, cm("a"))
        assert not api.catalog.initializers.is_active
        assert not any(cache.had_uninitialized for cache in api.catalog.hub.caches)
        await api.stop()

    run(main())
