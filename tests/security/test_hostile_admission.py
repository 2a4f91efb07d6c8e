"""Objects of hostile size that configure admission: they do not hold the event loop, and what they concern is answered.

`tests/reliability/hostile_admission.py` measures the same with objects of the largest size.
"""

import asyncio
import contextlib
import importlib
import threading
import time

import pytest

from kapi.codec import json
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.options import Options
from kapi.server.admission.expressions import LOOP_ALLOWANCE
from kapi.server.admission.webhooks.plugin import ValidatingWebhooks

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps?dryRun=All"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
LIMIT_RANGES = "/api/v1/namespaces/default/limitranges"
EVERY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def rules(count):
    return [{**EVERY, "apiGroups": [f"g{number}"], "resources": ["x"]} for number in range(count)]


def webhook(number, **more):
    return {
        "name": f"w{number}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [EVERY],
        "objectSelector": {"matchLabels": {"never": "matched"}},
        **more,
    }


def configuration(*webhooks):
    return f"{ADMISSION}/validatingwebhookconfigurations", {"metadata": {"name": "large"}, "webhooks": list(webhooks)}


def policy(**spec):
    constraints = {"resourceRules": [{**EVERY, "apiGroups": [""], "resources": ["configmaps"]}]}
    made = {"metadata": {"name": "large"}, "spec": {"matchConstraints": constraints, **spec}}
    return f"{ADMISSION}/validatingadmissionpolicies", made


def binding(**more):
    spec = {"policyName": "large", "validationActions": ["Deny"], **more}
    return f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "large"}, "spec": spec}


def terms(count):
    return [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(count)]


LONG = " && ".join(["true"] * 600)
CONDITIONS = [{"name": f"c{number}", "expression": LONG} for number in range(3)]
CONFIGURATIONS = "kapi.server.admission.webhooks.configurations.Configurations._read"
HOSTILE = {
    "rules": ([configuration(webhook(0, rules=rules(1_000)))], CONFIGURATIONS),
    "webhooks": ([configuration(*(webhook(number) for number in range(500)))], CONFIGURATIONS),
    "selector": ([configuration(webhook(0, objectSelector={"matchExpressions": terms(3_000)}))], CONFIGURATIONS),
    "conditions": (
        [configuration(webhook(0, objectSelector=None, matchConditions=CONDITIONS))],
        "kapi.server.admission.matchconditions.MatchConditions.__init__",
    ),
    "policy-rules": (
        [policy(matchConstraints={"resourceRules": rules(1_000)}, validations=[{"expression": "true"}]), binding()],
        "kapi.server.admission.policies.source.Policy.__init__",
    ),
    "binding-rules": (
        [policy(validations=[{"expression": "true"}]), binding(matchResources={"resourceRules": rules(1_000)})],
        "kapi.server.admission.policies.source.PolicySource._binding",
    ),
    "expressions": (
        [policy(validations=[{"expression": LONG}] * 3), binding()],
        "kapi.server.admission.policies.validator.Validator.__init__",
    ),
}
"""Objects, and the function that makes of them what requests are decided by."""


@contextlib.asynccontextmanager
async def running(path, storage="memory"):
    plane = ControlPlane(Options(data_dir=path, port=0, storage=storage, listen=False, controllers=frozenset()))
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


async def send(plane, method, path, body=None):
    sent = b"" if body is None else json.encode(body)
    reply = await plane.transport.request(method, path, {"content-type": "application/json"}, sent)
    return reply.status, await reply.read()


def recorded(monkeypatch, target):
    """Record for each call of a function whether it is on the event loop."""
    module, name, attribute = target.rsplit(".", 2)
    owner = getattr(importlib.import_module(module), name)
    function, calls = getattr(owner, attribute), []

    def call(*args, **kwargs):
        calls.append(threading.current_thread() is threading.main_thread())
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, attribute, call)
    return calls


def config_map():
    return {"metadata": {"name": "written"}, "data": {"a": "b"}}


def pod(containers):
    made = [{"name": f"c{number}", "image": "i"} for number in range(containers)]
    return {"metadata": {"name": "written"}, "spec": {"containers": made}}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_large_configuration_of_admission_is_read_off_the_event_loop(name, tmp_path, monkeypatch):
    objects, target = HOSTILE[name]

    async def main():
        async with running(tmp_path) as plane:
            calls = recorded(monkeypatch, target)
            for path, body in objects:
                status, text = await send(plane, "POST", path, body)
                assert status == 201, text[:500]
            answers = await asyncio.gather(*(send(plane, "POST", CONFIG_MAPS, config_map()) for _ in range(4)))
            assert [status for status, _ in answers] == [201] * 4
            return calls

    calls = asyncio.run(main())
    assert False in calls, "nothing was read"
    # What was read in a thread may be looked up again on the event loop, which is no work.
    assert calls[0] is False
    assert calls.count(False) <= 3, "read more than once for requests at the same time"


def test_many_short_expressions_are_evaluated_off_the_event_loop(tmp_path, monkeypatch):
    async def main():
        async with running(tmp_path) as plane:
            many = [{"expression": "object.metadata.name != 'x'"}] * 1_500
            for path, body in (policy(validations=many), binding()):
                assert (await send(plane, "POST", path, body))[0] == 201
            calls = recorded(monkeypatch, "kapi.schema.cel.run.program.Program.evaluate")
            assert (await send(plane, "POST", CONFIG_MAPS, config_map()))[0] == 201
            return calls

    calls = asyncio.run(main())
    assert calls.count(True) <= LOOP_ALLOWANCE // 20
    assert calls.count(False) == 1_500


def test_webhooks_of_one_request_are_called_a_few_at_a_time(tmp_path, monkeypatch):
    running_calls, most = set(), [0]

    async def call(self, candidate, write, objects, *, mutating):
        running_calls.add(candidate.webhook.uid)
        most[0] = max(most[0], len(running_calls))
        await asyncio.sleep(0)
        running_calls.discard(candidate.webhook.uid)
        return Answer()

    monkeypatch.setattr(ValidatingWebhooks, "_call", call)

    async def main():
        async with running(tmp_path) as plane:
            path, body = configuration(*(webhook(number, objectSelector=None) for number in range(200)))
            assert (await send(plane, "POST", path, body))[0] == 201
            assert (await send(plane, "POST", CONFIG_MAPS, config_map()))[0] == 201

    asyncio.run(main())
    assert 1 < most[0] <= 64


class Answer:
    """An answer that allows a request."""

    patch = b""


AMOUNTS = {f"example.com/r{number}": "1" for number in range(5_000)}


@pytest.mark.parametrize(
    ("limit", "status", "what"),
    [({"default": AMOUNTS}, 413, b"limit is"), ({"maxLimitRequestRatio": AMOUNTS}, 403, b"no request is specified")],
    ids=["default", "ratio"],
)
def test_limits_times_containers_are_bounded(limit, status, what, tmp_path, monkeypatch):
    async def main():
        async with running(tmp_path) as plane:
            await send(plane, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            limits = {"metadata": {"name": "large"}, "spec": {"limits": [{"type": "Container", **limit}]}}
            answered, text = await send(plane, "POST", LIMIT_RANGES, limits)
            assert answered == 201, text[:500]
            read = recorded(monkeypatch, "kapi.server.admission.limitranger.LimitRange.__init__")
            before = time.process_time()
            answered, text = await send(plane, "POST", PODS, pod(1_000))
            assert (answered, what in text) == (status, True), text[:500]
            assert len(text) < 1 << 19
            assert read == [False]
            return time.process_time() - before

    # Five million limits would be compared or filled in; that takes tens of seconds.
    assert asyncio.run(main()) < 4


def test_a_server_starts_on_a_store_with_all_of_them(tmp_path):
    async def main():
        async with running(tmp_path, "sqlite") as plane:
            for name, (objects, _) in HOSTILE.items():
                for path, body in objects:
                    renamed = {**body, "metadata": {"name": name}}
                    status, text = await send(plane, "POST", path, renamed)
                    assert status == 201, text[:500]
        async with running(tmp_path, "sqlite") as plane:
            assert (await send(plane, "GET", "/readyz"))[0] == 200
            assert (await send(plane, "POST", CONFIG_MAPS, config_map()))[0] == 201

    asyncio.run(main())
