"""Definitions and objects of custom kinds, for the tests that need some: a widget by default, anything else on request."""

import asyncio

from kapi.registry.kinds.apiextensions.conditions import FINALIZER

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OLD_CRDS = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"
GROUP = "example.com"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
WIDGET_CRD = f"{CRDS}/widgets.{GROUP}"
CLEANUP = FINALIZER

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def record(required=(), **properties):
    """The schema of an object with these properties."""
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


SPEC = record(size=INTEGER, colour={"type": "string", "default": "red"}, tags={"type": "array", "items": STRING})
STATUS = record(ready={"type": "boolean"}, size=INTEGER, selector=STRING)
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}


def version(name="v1", spec=None, *, storage=False, served=True, root=None, **more):
    """An entry of `spec.versions`: `spec` is the schema of that part, `root` that of the whole."""
    root = root or record(spec=spec or SPEC, status=STATUS)
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": root}, **more}


def definition(kind="Widget", versions=None, *, group=GROUP, scope="Namespaced", spec=None, status=True, **names):
    """A definition; with `spec` instead of versions, it has v1 with that schema, and the status sub-resource."""
    plural = names.pop("plural", kind.lower() + "s")
    if versions is None:
        more = {"subresources": {"status": {}}} if status else {}
        versions = [version("v1", spec, storage=True, **more)]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": versions,
        },
    }


def widget(name="w", spec=None, *, api_version=f"{GROUP}/v1", kind="Widget", metadata=None, **fields):
    """An object, by default a widget."""
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}
    return obj if spec is None else {**obj, "spec": spec}


async def defined(api, *definitions):
    """Create definitions; what was stored of the last one."""
    stored = None
    for one in definitions:
        stored = await api.made(CRDS, one)
    return stored


async def redefined(api, name, change):
    """Change the spec of a definition in place; what is stored then."""
    current = (await api.get(f"{CRDS}/{name}")).json
    change(current["spec"])
    answer = await api.put(f"{CRDS}/{name}", current)
    assert answer.status == 200, answer
    return answer.json


def conditions(obj):
    """Status and reason by type."""
    return {one["type"]: (one["status"], one["reason"]) for one in obj["status"]["conditions"] or ()}


async def background_work():
    """Let background work finish: in virtual time a second is enough."""
    await asyncio.sleep(1)


async def until(check):
    """Wait until an asynchronous condition holds."""
    async with asyncio.timeout(30):
        while not await check():  # noqa: ASYNC110 (what is waited for shows in answers only)
            await asyncio.sleep(0.001)


async def gone(api, name):
    """Wait until a definition has been removed."""

    async def is_gone():
        return (await api.get(f"{CRDS}/{name}")).status == 404

    await until(is_gone)
