"""The official client on a custom kind: its definition, then create, list, watch, patches, status, scale, apply, delete."""

import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient


def refusal(action: Callable[[], object]) -> ApiException:
    """The error of a call that must fail."""
    try:
        action()
    except ApiException as error:
        return error
    raise AssertionError("it was accepted")


namespace, definition = sys.argv[1], yaml.safe_load(Path(sys.argv[2]).read_text())
config.load_kube_config()
extensions, lamps = client.ApiextensionsV1Api(), client.CustomObjectsApi()
name = definition["metadata"]["name"]
where = ("home.example.com", "v1", namespace, "lamps")

client.CoreV1Api().create_namespace({"metadata": {"name": namespace}})
extensions.create_custom_resource_definition(definition)
watcher = watch.Watch()
for event in watcher.stream(
    extensions.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=20
):
    conditions = {condition.type: condition.status for condition in event["object"].status.conditions or []}
    if conditions.get("Established") == "True":
        watcher.stop()
print("established", event["object"].spec.names.kind)

created = lamps.create_namespaced_custom_object(
    *where,
    {"apiVersion": "home.example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"room": "hall"}},
)
assert created["spec"] == {"room": "hall", "watts": 40, "bulbs": 1}, created["spec"]
print("created", created["metadata"]["name"])

patched = lamps.patch_namespaced_custom_object(*where, "a", {"spec": {"watts": 60}})
patched = lamps.patch_namespaced_custom_object(
    *where, "a", [{"op": "remove", "path": "/spec/room"}], _content_type="application/json-patch+json"
)
assert patched["spec"] == {"watts": 60, "bulbs": 1}, patched["spec"]
patched = lamps.patch_namespaced_custom_object_status(*where, "a", {"status": {"lit": 1}, "spec": {"watts": 1}})
assert (patched["status"], patched["spec"]["watts"]) == ({"lit": 1}, 60), patched
patched = lamps.patch_namespaced_custom_object_scale(*where, "a", {"spec": {"replicas": 3}})
assert patched["spec"] == {"replicas": 3}, patched
print("patched", dict(sorted(lamps.get_namespaced_custom_object(*where, "a")["spec"].items())))

error = refusal(lambda: lamps.replace_namespaced_custom_object(*where, "a", created))
print("conflict", error.reason)
error = refusal(lambda: lamps.patch_namespaced_custom_object(*where, "a", {"spec": {"watts": 101}}))
assert "spec.watts in body should be less than or equal to 100" in error.body
print("invalid", error.status)

listed = lamps.list_namespaced_custom_object(*where)
assert (listed["kind"], len(listed["items"])) == ("LampList", 1)
assert lamps.list_cluster_custom_object("home.example.com", "v1", "lamps", limit=1)["items"] == listed["items"]

dynamic = DynamicClient(client.ApiClient()).resources.get(api_version="home.example.com/v1", kind="Lamp")
applied = dynamic.server_side_apply(
    body={"apiVersion": "home.example.com/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"room": "attic"}},
    namespace=namespace,
    field_manager="tests",
)
assert applied.spec.to_dict() == {"room": "attic", "watts": 60, "bulbs": 3}, applied
print("applied", applied.spec.room)

lamps.delete_namespaced_custom_object(*where, "a")
seen = []
watcher = watch.Watch()
for event in watcher.stream(
    lamps.list_namespaced_custom_object,
    *where,
    resource_version=created["metadata"]["resourceVersion"],
    timeout_seconds=20,
):
    seen.append(event["type"])
    if event["type"] == "DELETED":
        watcher.stop()
print("watched", *seen)

start = extensions.read_custom_resource_definition(name).metadata.resource_version
extensions.delete_custom_resource_definition(name)
watcher = watch.Watch()
for event in watcher.stream(extensions.list_custom_resource_definition, resource_version=start, timeout_seconds=20):
    if event["type"] == "DELETED":
        watcher.stop()
error = refusal(lambda: lamps.list_namespaced_custom_object(*where))
print("gone", error.status)
