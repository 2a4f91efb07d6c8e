"""Store objects of hostile size that configure admission, and print what another client notices of them.

    PYTHONPATH=tests:tests/reliability .venv/bin/python tests/reliability/hostile_admission.py [ROW ...]

As `hostile_requests.py`. Each row stores an object near the size limit, writes objects that it concerns, and deletes it. At the end
the server is started again on a store that has all of them.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import uvloop
from hostile_requests import measure
from live_server import Line, LiveServer

from crowd import CONFIG_MAPS

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
NOWHERE = {"url": "https://127.0.0.1:9/", "caBundle": ""}
WRITES = 3


def webhook(number, **more):
    return {
        "name": f"w{number}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [rule(number)],
        **more,
    }


def rule(number):
    return {"operations": ["*"], "apiGroups": [f"g{number}"], "apiVersions": ["*"], "resources": ["x"]}


def terms(count):
    return [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(count)]


def conditions(count, size):
    return [{"name": f"c{number}", "expression": " && ".join(["true"] * (size // 8))} for number in range(count)]


def configuration(*webhooks):
    return "validatingwebhookconfigurations", {"metadata": {"name": "hostile"}, "webhooks": list(webhooks)}


def policy(name="hostile", **spec):
    rules = {"resourceRules": [{**EVERYTHING, "resources": ["configmaps"], "apiGroups": [""]}]}
    return {"metadata": {"name": name}, "spec": {"matchConstraints": rules, **spec}}


def binding(name="hostile", **more):
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"], **more}}


def stored(*objects):
    """A row: create objects, write ConfigMaps and Pods, delete the objects."""

    async def row(to):
        answers = [await to.send("POST", path, body) for path, body in objects]
        answers += [str(answer) for answer in await writes(to)]
        if not KEPT:
            for path, body in objects:
                await to.send("DELETE", f"{path}/{body['metadata']['name']}")
        return ", ".join(dict.fromkeys(answers))

    return row


async def writes(to, body=None):
    answers = []
    for number in range(WRITES):
        sent = {"metadata": {"name": "written", "labels": {"a": str(number)}}, "data": {"a": "b"}}
        answers.append(await to.send("POST", f"{CONFIG_MAPS}?dryRun=All", sent))
        answers.append(await to.send("POST", "/api/v1/namespaces/default/pods?dryRun=All", body or pod(1)))
    return answers


def pod(containers):
    made = [{"name": f"c{number}", "image": "i"} for number in range(containers)]
    return {"metadata": {"name": "written"}, "spec": {"containers": made}}


def at(resource, body):
    return f"{ADMISSION}/{resource}", body


KEPT = []
"""Not empty when objects are not deleted."""
SMALL = [rule(number) for number in range(14_000)]
LIMITS = "/api/v1/namespaces/default/limitranges"


def amounts(count):
    return {f"example.com/r{number}": "1" for number in range(count)}


def limit_range(containers, **limit):
    async def row(to):
        body = {"metadata": {"name": "hostile"}, "spec": {"limits": [{"type": "Container", **limit}]}}
        answers = [await to.send("POST", LIMITS, body), *await writes(to, pod(containers))]
        await to.send("DELETE", f"{LIMITS}/hostile")
        return ", ".join(dict.fromkeys(answers))

    return row


async def params(to):
    """A binding that selects 2,000 params."""
    for number in range(2_000):
        body = {"metadata": {"name": f"param-{number}", "labels": {"param": "yes"}}, "data": {"a": "b"}}
        await to.send("POST", CONFIG_MAPS, body)
    chosen = policy(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, validations=[{"expression": "params.data.a == 'b'"}]
    )
    reference = {
        "selector": {"matchLabels": {"param": "yes"}},
        "parameterNotFoundAction": "Allow",
        "namespace": "default",
    }
    bound = binding(paramRef=reference)
    answer = await stored(at("validatingadmissionpolicies", chosen), at("validatingadmissionpolicybindings", bound))(to)
    await to.send("DELETE", f"{CONFIG_MAPS}?labelSelector=param")
    return answer


def many(count, made):
    """A row: so many objects."""

    async def row(to):
        pairs = [pair for number in range(count) for pair in made(number)]
        answers = [await to.send("POST", path, body) for path, body in pairs]
        answers += [str(answer) for answer in await writes(to)]
        if not KEPT:
            for path, body in pairs:
                await to.send("DELETE", f"{path}/{body['metadata']['name']}")
        return ", ".join(dict.fromkeys(answers))

    return row


def api_service(number):
    spec = {
        "group": f"g{number}.example.com",
        "version": "v1",
        "service": {"namespace": "default", "name": f"none{number}"},
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
    }
    body = {"metadata": {"name": f"v1.g{number}.example.com"}, "spec": spec}
    return [("/apis/apiregistration.k8s.io/v1/apiservices", body)]


def initializers(number):
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": [f"r{n}" for n in range(64)]}] * 64
    body = {
        "metadata": {"name": f"hostile-{number}"},
        "initializers": [{"name": f"i{n}.initializer.example.com", "rules": rules} for n in range(16)],
    }
    return [("/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations", body)]


def small_policy(number):
    name = f"hostile-{number}"
    made = policy(name, validations=[{"expression": "object.metadata.name != 'x'"}])
    return [at("validatingadmissionpolicies", made), at("validatingadmissionpolicybindings", binding(name))]


LONG = " && ".join(["true"] * 12_000)
DEEP = "(" * 5_000 + "true" + ")" * 5_000
ROWS = {
    "webhook-rules": stored(at(*configuration(webhook(0, rules=SMALL)))),
    "webhooks": stored(at(*configuration(*(webhook(number) for number in range(4_000))))),
    "webhooks-called": stored(at(*configuration(*(webhook(n, rules=[EVERYTHING], timeoutSeconds=1) for n in range(1_000))))),
    "webhook-selector": stored(
        at(*configuration(webhook(0, rules=[EVERYTHING], objectSelector={"matchExpressions": terms(25_000)})))
    ),
    "webhook-conditions": stored(
        at(*configuration(*(webhook(n, rules=[EVERYTHING], matchConditions=conditions(64, 4_000)) for n in range(5))))
    ),
    "policy-expressions": stored(
        at("validatingadmissionpolicies", policy(validations=[{"expression": LONG}] * 14)),
        at("validatingadmissionpolicybindings", binding()),
    ),
    "policy-validations": stored(
        at("validatingadmissionpolicies", policy(validations=[{"expression": "object.metadata.name != 'x'"}] * 20_000)),
        at("validatingadmissionpolicybindings", binding()),
    ),
    "policy-deep": stored(
        at("validatingadmissionpolicies", policy(validations=[{"expression": DEEP}])),
        at("validatingadmissionpolicybindings", binding()),
    ),
    "policy-rules": stored(
        at("validatingadmissionpolicies", policy(matchConstraints={"resourceRules": SMALL}, validations=[{"expression": "true"}])),
        at("validatingadmissionpolicybindings", binding(matchResources={"resourceRules": SMALL})),
    ),
    "policy-params": params,
    "policies": many(300, small_policy),
    "mutating-policy": stored(
        at(
            "mutatingadmissionpolicies",
            {
                **policy(
                    failurePolicy="Ignore",
                    reinvocationPolicy="Never",
                    mutations=[
                        {
                            "patchType": "JSONPatch",
                            "jsonPatch": {"expression": f'[JSONPatch{{op: "add", path: "/data/a", value: "{"x" * 90_000}"}}]'},
                        }
                    ]
                    * 15,
                )
            },
        ),
        at(
            "mutatingadmissionpolicybindings",
            {"metadata": {"name": "hostile"}, "spec": {"policyName": "hostile"}},
        ),
    ),
    "initializers": many(20, initializers),
    "limits-defaults": limit_range(5_000, default=amounts(30_000)),
    "limits-max": limit_range(5_000, max=amounts(30_000)),
    "apiservices": many(1_000, api_service),
}  # fmt: skip


async def run(folder, names):
    with LiveServer(
        folder / "data", "--history-seconds=30", "--service-override", "default/none=127.0.0.1:9"
    ) as server:
        line = await Line.open(server)
        await line.request("POST", CONFIG_MAPS, {"metadata": {"name": "lone"}, "data": {}})
        await line.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        line.close()
        for name, row in ROWS.items():
            if not names or name in names:
                await measure(server, name, row)
        assert "Traceback" not in server.log, server.log[-5000:]
        KEPT.append(True)
        for name in ("webhook-rules", "policy-deep", "policy-validations", "initializers", "apiservices"):
            if not names or name in names:
                await measure(server, f"{name}, kept", ROWS[name])
        server.kill()
        server.start()
        line = await Line.open(server)
        reply = await line.request("GET", "/readyz")
        print(f"started again: {reply.status} {reply.body[:200]}")


def main():
    with (
        tempfile.TemporaryDirectory(prefix="kapi-hostile-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(run(Path(folder), sys.argv[1:]))


if __name__ == "__main__":
    main()
