"""The users of the kopf operator: they define Lamps, create some, change them, delete them, and watch what it does."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config, watch

COUNT = 10
Lamp = dict[str, Any]

namespace, definition = sys.argv[1], yaml.safe_load(Path(sys.argv[2]).read_text())
config.load_kube_config()
core, extensions, lamps = client.CoreV1Api(), client.ApiextensionsV1Api(), client.CustomObjectsApi()
where = ("home.example.com", "v1", namespace, "lamps")


def until(reached: Callable[[Iterable[Lamp]], bool]) -> None:
    """Follow the Lamps until they are as they should be."""
    listed = lamps.list_namespaced_custom_object(*where)
    state: dict[str, Lamp] = {lamp["metadata"]["name"]: lamp for lamp in listed["items"]}
    if reached(state.values()):
        return
    for event in watch.Watch().stream(
        lamps.list_namespaced_custom_object,
        *where,
        resource_version=listed["metadata"]["resourceVersion"],
        timeout_seconds=30,
    ):
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            del state[name]
        else:
            state[name] = event["object"]
        if reached(state.values()):
            return
    raise AssertionError(state)


def all_are(status: Lamp, finalizers: int) -> Callable[[Iterable[Lamp]], bool]:
    """Whether every Lamp has at least this status and this many finalizers."""

    def reached(found: Iterable[Lamp]) -> bool:
        return len(found) == COUNT and all(
            lamp.get("status", {}) | status == lamp.get("status", {})
            and len(lamp["metadata"].get("finalizers", [])) == finalizers
            for lamp in found
        )

    return reached


def exercise() -> None:
    for number in range(COUNT):
        lamp = {"apiVersion": "home.example.com/v1", "kind": "Lamp", "metadata": {"name": f"lamp-{number}"}, "spec": {}}
        lamps.create_namespaced_custom_object(*where, lamp)
    until(all_are({"lit": 1, "switch_on": {"watts": 40}}, finalizers=1))
    print("lit", COUNT)

    for number in range(COUNT):
        lamps.patch_namespaced_custom_object(*where, f"lamp-{number}", {"spec": {"bulbs": 5}})
    until(all_are({"lit": 5, "before": 1}, finalizers=1))
    print("followed", COUNT)

    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_event, namespace, timeout_seconds=20):
        if event["object"].reason == "Followed":
            print("reported", event["object"].message)
            break

    lamps.delete_collection_namespaced_custom_object(*where)
    until(lambda found: all("deletionTimestamp" in lamp["metadata"] for lamp in found))
    until(lambda found: not found)
    print("switched off")


core.create_namespace({"metadata": {"name": namespace}})
extensions.create_custom_resource_definition(definition)
operator = [sys.executable, "-m", "kopf", "run", "-n", namespace, str(Path(__file__).parent / "operator_kopf.py")]
with subprocess.Popen(operator, stderr=subprocess.PIPE, text=True) as running:
    try:
        exercise()
    except BaseException:
        running.kill()
        print(running.stderr.read(), file=sys.stderr)
        raise
    running.send_signal(signal.SIGTERM)
    said = running.communicate(timeout=30)[1]
assert running.returncode == 0, said
assert "Traceback" not in said, said
print("stopped", running.returncode)

name = definition["metadata"]["name"]
start = extensions.read_custom_resource_definition(name).metadata.resource_version
extensions.delete_custom_resource_definition(name)
for event in watch.Watch().stream(
    extensions.list_custom_resource_definition, resource_version=start, timeout_seconds=20
):
    if event["type"] == "DELETED":
        break
