"""The CPU of admission grows no faster than the lists and maps of an object, and of the objects that configure it.

Every plug-in is enabled and measured by itself, with objects that are built from the schemas, so that no field that a
plug-in looks at can be forgotten. A plug-in that refuses does not keep the ones after it from being measured.
"""

import asyncio
import contextlib
import gc
import time

import pytest
from schema_fields import ONCE, copied, filled
from test_validation_cost import COUNTS, LEAST, too_much

from kapi.api.errors import ApiError
from kapi.api.user import User
from kapi.codec import json
from kapi.controlplane.admission import PLUGINS
from kapi.controlplane.admissionoptions import DEFAULT_OFF, AdmissionOptions
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.controllers.view import CacheView
from kapi.controlplane.options import Options
from kapi.registry.request import Write, WriteOptions

ENABLED = frozenset((DEFAULT_OFF & PLUGINS.keys()) - {"EventRateLimit", "AlwaysDeny"})
"""Those that are off by default, too. EventRateLimit does not look at objects, and needs a configuration."""

NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
ADMIN = User("someone", ("system:authenticated",))
POD = ("", "Pod")
ONLY_WITH_USER = {"NodeRestriction": NODE}

PRIVILEGED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("warn", "audit", "enforce")}
ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/node-selector": "a=b,c=d",
    "scheduler.alpha.kubernetes.io/defaultTolerations": '[{"key":"a","operator":"Exists"}]',
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist": '[{"operator":"Exists"}]',
}


def namespace(annotations):
    return {"metadata": {"name": "default", "labels": PRIVILEGED, "annotations": annotations}}


def limit_range(entries):
    of_containers = {"type": "Container", "max": {"cpu": "9"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}
    of_pods = {"type": "Pod", "max": {"cpu": "9", **{f"example.com/r{n}": "1" for n in range(entries)}}}
    return {"metadata": {"name": "limits"}, "spec": {"limits": [of_containers, of_pods]}}


def quota(entries):
    hard = {"pods": "9", "requests.cpu": "9", "limits.memory": "9", "services": "9", "count/configmaps": "9"}
    return {
        "metadata": {"name": "quota"},
        "spec": {"hard": hard | {f"requests.example.com/r{n}": "1" for n in range(entries)}},
    }


POLICY = {
    "metadata": {"name": "every"},
    "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
        "matchConditions": [{"name": "a", "expression": "has(object.metadata)"}],
        "validations": [{"expression": "object.metadata.name != 'none'"}],
    },
}  # fmt: skip
BINDING = {"metadata": {"name": "every"}, "spec": {"policyName": "every", "validationActions": ["Deny"]}}


@contextlib.asynccontextmanager
async def admission(path, *, annotations=ANNOTATIONS, entries=0):
    """A control plane with every plug-in, and objects that make each of them look at what is written."""
    options = Options(
        data_dir=path, port=0, storage="memory", listen=False, admission=AdmissionOptions(enabled=ENABLED)
    )
    plane = ControlPlane(options)
    try:
        await plane.start()
        await send(plane, "PUT", "/api/v1/namespaces/default", namespace(annotations))
        await send(plane, "POST", "/api/v1/namespaces/default/limitranges", limit_range(entries))
        await send(plane, "POST", "/api/v1/namespaces/default/resourcequotas", quota(entries))
        group = "/apis/admissionregistration.k8s.io/v1"
        await send(plane, "POST", f"{group}/validatingadmissionpolicies", POLICY)
        await send(plane, "POST", f"{group}/validatingadmissionpolicybindings", BINDING)
        yield plane
    finally:
        await plane.stop()


async def send(plane, method, path, body):
    reply = await plane.transport.request(method, path, {"content-type": "application/json"}, json.encode(body))
    text = await reply.read()
    assert reply.status in (200, 201), text


def a_write(plane, field, operation, obj, user):
    write = Write(
        operation,
        field.resource,
        lookup=CacheView(plane.catalog),
        now=plane.clock.now(),
        namespace=obj["metadata"].get("namespace", ""),
        name=obj["metadata"]["name"],
        user=user,
        options=WriteOptions(dry_run=True),
    )
    write.object_bytes = 1000
    return write


async def cpu(plane, field, count, *, distinct, times):
    """By plug-in and operation the least CPU of several runs."""
    made = filled(field, count, distinct=distinct)
    taken = {}
    gc.disable()
    try:
        for _ in range(times):
            for operation in ("CREATE", "UPDATE"):
                for name, seconds in (await one_run(plane, field, operation, made)).items():
                    key = f"{name} {operation}"
                    taken[key] = min(seconds, taken.get(key, seconds))
    finally:
        gc.enable()
    return taken


async def one_run(plane, field, operation, made):
    chain = plane._services.admission
    taken = {}
    obj, old = copied(made), copied(made) if operation == "UPDATE" else None
    for name, plugin in {**dict(chain._mutating), **dict(chain._validating)}.items():
        if not plugin.handles(operation, field.resource, ""):
            continue
        write = a_write(plane, field, operation, obj, ONLY_WITH_USER.get(name, ADMIN))
        start = time.process_time()
        for method in ("mutate", "validate"):
            if (call := getattr(plugin, method, None)) is not None:
                with contextlib.suppress(ApiError):
                    await call(write, obj, old)
        taken[name] = time.process_time() - start
        if write.finish is not None:
            write.finish(False)
    return taken


async def too_fast(plane, field, *, distinct):
    """The plug-ins whose CPU grows faster than the field, with the CPU for few and for many entries."""
    lots = await cpu(plane, field, COUNTS[-1], distinct=distinct, times=1)
    if max(lots.values(), default=0) < LEAST:
        return {}
    few = await cpu(plane, field, COUNTS[0], distinct=distinct, times=3)
    if not any(too_much((few[name],), (lots[name],)) for name in lots):
        return {}
    lots = await cpu(plane, field, COUNTS[-1], distinct=distinct, times=5)
    return {name: (few[name], lots[name]) for name in lots if too_much((few[name],), (lots[name],))}


async def bad_fields(plane, fields):
    bad = {}
    for field in fields:
        # Equal entries are another case where a plug-in compares entries with each other, as those of Pods do.
        for distinct in (True, False) if field.struct.endswith((".PodSpec", ".Container")) else (True,):
            for name, measured in (await too_fast(plane, field, distinct=distinct)).items():
                bad[f"{name}: {field} {'distinct' if distinct else 'repeated'}"] = measured
    return bad


EVERYWHERE = {
    "EscalationCheck", "Initializers", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceAutoProvision",
    "NamespaceExists", "NamespaceLifecycle", "OwnerReferencesPermissionEnforcement", "ParamAccess",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}  # fmt: skip
"""Plug-ins that handle every resource, and look at its metadata, or at all of it in the same way: some fields are enough."""


def chosen(plane, fields):
    """Fields of the resources that a plug-in of their own handles, and some of the others."""
    chain = plane._services.admission
    plugins = {**dict(chain._mutating), **dict(chain._validating)}
    for index, field in enumerate(fields):
        own = [name for name, plugin in plugins.items() if plugin.handles("CREATE", field.resource, "")]
        if index % 32 == 0 or set(own) - EVERYWHERE - {"ResourceQuota"}:
            yield field


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_cpu_of_every_plugin_grows_no_faster_than_the_lists_and_maps_of_each_struct(part, tmp_path):
    async def main():
        async with admission(tmp_path) as plane:
            return await bad_fields(plane, list(chosen(plane, ONCE))[part::2])

    assert asyncio.run(main()) == {}


def many_tolerations(count):
    return [{"key": f"k{number}", "operator": "Exists", "effect": "NoSchedule"} for number in range(count)]


def large_pod(count):
    """A Pod that has as many of everything as what is configured."""
    amounts = {f"example.com/r{number}": "1" for number in range(count)}
    return {
        "metadata": {"name": "large", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": amounts, "requests": dict(amounts)}}],
            "tolerations": many_tolerations(count),
            "nodeSelector": {f"l{number}": "v" for number in range(count)},
        },
    }


async def configured_cpu(path, count):
    """The CPU of each plug-in when the object and the configuration have so many entries."""
    tolerations = json.encode(many_tolerations(count)).decode()
    annotations = {
        "scheduler.alpha.kubernetes.io/node-selector": ",".join(f"l{number}=v" for number in range(count)),
        "scheduler.alpha.kubernetes.io/defaultTolerations": tolerations,
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist": tolerations,
    }
    field = next(field for field in ONCE if field.resource.kind == "Pod")
    async with admission(path, annotations=annotations, entries=count) as plane:
        taken = {}
        for _ in range(3):
            for name, seconds in (await one_run(plane, field, "CREATE", large_pod(count))).items():
                taken[name] = min(seconds, taken.get(name, seconds))
        return taken


def test_cpu_of_every_plugin_grows_no_faster_than_object_and_configuration_together(tmp_path):
    few, lots = (asyncio.run(configured_cpu(tmp_path / str(count), count)) for count in (250, 1000))
    assert {name: (few[name], lots[name]) for name in lots if too_much((few[name],), (lots[name],))} == {}


class Quadratic:
    """A plug-in that compares all tolerations with each other."""

    def handles(self, operation, resource, subresource):
        return resource.kind == "Pod"

    async def validate(self, write, obj, old):
        found = obj["spec"].get("tolerations") or []
        [one for one in found if any(one is other for other in found[::-1])]


def test_a_plugin_that_is_slower_than_linear_is_found(tmp_path):
    async def main():
        async with admission(tmp_path) as plane:
            chain = plane._services.admission
            chain._validating = (*chain._validating, ("Quadratic", Quadratic()))
            tested = [field for field in ONCE if field.struct.endswith(".PodSpec") and field.names == ("tolerations",)]
            return await bad_fields(plane, tested)

    assert {name.split(":")[0] for name in asyncio.run(main())} == {"Quadratic CREATE", "Quadratic UPDATE"}
