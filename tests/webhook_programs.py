"""Random webhook configurations and requests, to be sent to Kapi and to kube-apiserver with the same outcome.

A program is a MutatingWebhookConfiguration, a ValidatingWebhookConfiguration and some requests. Both servers call the
same webhook server, whose answers depend on the path and the review alone. The outcome of a request is its status,
message, warnings and object, and every review that webhooks were sent for it.

At most one validating webhook of a program refuses or fails: of several, kube-apiserver reports the fastest.
"""

import asyncio
import hashlib
import json
import random
import re
import sys
from typing import NamedTuple

from admission_webhook import MUTATING, VALIDATING, allow, patch_of
from webhook_server import Reply

COUNT = 150
"""Programs, of two configurations each."""
PATCHES = 40
"""Programs after those whose requests are patches of every kind, to objects and to their sub-resources."""
RECORDED = 40
"""Programs whose outcome is recorded, for tests without a kube-apiserver."""

CORE, APPS, SCALERS = "/api/v1", "/apis/apps/v1", "/apis/autoscaling"
GADGETS = "/apis/webhooks.example.dev"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"


class Step(NamedTuple):
    """A request."""

    method: str
    path: str
    body: dict | list | None = None
    media: str = JSON


class Outcome(NamedTuple):
    """What became of a request."""

    status: int
    message: str
    warnings: list
    obj: dict | None
    reviews: list
    """Path and request of each call; mutating ones in order, then validating ones by path."""

    def summary(self):
        """The outcome in short, for a recording."""
        calls = [f"{path} {request['operation']} {_digest(request)}" for path, request in self.reviews]
        return [self.status, self.message, self.warnings, _digest(self.obj), calls]


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


# -- what webhooks answer ---------------------------------------------------------------------------------------------


def _labels(review, labels):
    obj = review["request"]["object"]
    if obj is None or "metadata" not in obj:
        return []
    present = obj["metadata"].get("labels")
    if present is None:
        return [{"op": "add", "path": "/metadata/labels", "value": labels}]
    # A patch that changes nothing counts as a change in Kubernetes if times of field owners have fractions.
    missing = {key: value for key, value in labels.items() if present.get(key) != value}
    return [{"op": "add", "path": f"/metadata/labels/{key}", "value": value} for key, value in missing.items()]


def _patched(call, operations):
    return Reply(allow(call, **patch_of(*operations)) if operations else allow(call))


def _count(call):
    """Add one to an annotation: shows how often, and in which order, webhooks are called."""
    obj = call.review["request"]["object"]
    if obj is None or "metadata" not in obj:
        return Reply(allow(call))
    annotations = obj["metadata"].get("annotations") or {}
    count = {**annotations, "count": str(int(annotations.get("count", "0")) + 1)}
    return _patched(call, [{"op": "add", "path": "/metadata/annotations", "value": count}])


def _spec(call):
    """Change what the kind is about, in the version that was sent."""
    request = call.review["request"]
    obj, kind = request["object"], request["kind"]["kind"]
    operations = {
        "ConfigMap": [{"op": "add", "path": "/data", "value": {"patched": "yes"}}],
        "Deployment": [
            {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "side", "image": "envoy"}}
        ],
        "Scale": [{"op": "add", "path": "/spec/replicas", "value": 7}],
        "Gadget": [{"op": "add", "path": "/spec", "value": {"color": "red"}}],
        "HorizontalPodAutoscaler": [{"op": "replace", "path": "/spec/maxReplicas", "value": 9}],
    }.get(kind, [])
    return _patched(call, operations if obj is not None else [])


def _invalid(call):
    """Make an object that validation refuses."""
    return _patched(call, _labels(call.review, {"bad": "not a label!"}))


SCRIPTS = {
    "allow": lambda call: Reply(allow(call)),
    "warn": lambda call: Reply(allow(call, warnings=["careful", "very careful"])),
    "label": lambda call: _patched(call, _labels(call.review, {"labelled": "yes"})),
    "unlabel": lambda call: _patched(
        call,
        [{"op": "replace", "path": "/metadata/labels", "value": {"only": "this"}}]
        if _has_labels(call) and "only" not in call.review["request"]["object"]["metadata"]["labels"]
        else [],
    ),
    "count": _count,
    "spec": _spec,
    "same": lambda call: _patched(call, _labels(call.review, {"team": "a"})),
    "test": lambda call: _patched(
        call,
        [{"op": "test", "path": "/kind", "value": call.review["request"]["kind"]["kind"]}, *operations]
        if (operations := _labels(call.review, {"tested": "yes"}))
        else [],
    ),
}
FAILING = {
    "deny": lambda call: Reply(allow(call, allowed=False, status={"message": "no"})),
    "deny-code": lambda call: Reply(
        allow(
            call, allowed=False, status={"code": 422, "reason": "Invalid", "message": "bad", "details": {"kind": "x"}}
        )
    ),
    "silent": lambda call: Reply(allow(call, allowed=False)),
    "deny-warn": lambda call: Reply(allow(call, allowed=False, warnings=["beware"], status={"reason": "Because"})),
    "garbage": lambda call: Reply(b"{]"),
    "error": lambda call: Reply(b"broken", 500, content_type="text/plain"),
    "uid": lambda call: Reply({**allow(call), "response": {"uid": "other", "allowed": True}}),
    "empty": lambda call: Reply({"kind": "AdmissionReview", "apiVersion": call.review["apiVersion"]}),
}
BAD_PATCHES = {
    "missing": lambda call: _patched(call, [{"op": "remove", "path": "/metadata/labels/zzz"}]),
    "invalid": _invalid,
    "rename": lambda call: _patched(
        call, [{"op": "replace", "path": "/metadata/name", "value": "renamed"}] if _operation(call) == "UPDATE" else []
    ),
    "move": lambda call: _patched(
        call, [{"op": "add", "path": "/metadata/namespace", "value": "prod"}] if _obj(call) else []
    ),
    "identity": lambda call: _patched(
        call, [{"op": "add", "path": "/metadata/uid", "value": "other"}] if _obj(call) else []
    ),
    "undecodable": lambda call: Reply(allow(call, patchType="JSONPatch", patch="eA==")),
    "wrong-type": lambda call: _patched(
        call, [{"op": "replace", "path": "/metadata", "value": "x"}] if _obj(call) else []
    ),
}


def _obj(call):
    obj = call.review["request"]["object"]
    return obj is not None and "metadata" in obj


def _operation(call):
    return call.review["request"]["operation"]


def _has_labels(call):
    return _obj(call) and "labels" in call.review["request"]["object"]["metadata"]


def answer(call):
    """The answer to a call, by the last part of its path."""
    name = call.target.partition("?")[0].rpartition("/")[2]
    if name == "marker":
        return SCRIPTS["allow"](call) if _operation(call) != "CREATE" else FAILING["silent"](call)
    return (SCRIPTS | FAILING | BAD_PATCHES)[name](call)


# -- configurations ---------------------------------------------------------------------------------------------------

CONDITIONS = [
    ("object != null && has(object.metadata) && object.metadata.name != 'never'", 3),
    ("request.operation in ['CREATE', 'UPDATE']", 3),
    ("!('skip' in object.metadata.labels)", 2),
    ("oldObject == null", 2),
    ("object.data.missing == 'x'", 1),
    ("authorizer.requestResource.check('create').allowed()", 1),
    ("request.kind.version == request.requestKind.version", 1),
    ("request.?namespace.orValue('') == 'prod' || request.dryRun", 1),
]
RESOURCES = [
    (["configmaps"], [""], ["v1"]),
    (["*"], [""], ["*"]),
    (["*/*"], ["*"], ["*"]),
    (["deployments", "deployments/scale"], ["apps"], ["v1"]),
    (["*/scale"], ["*"], ["*"]),
    (["deployments/*"], ["apps"], ["v1"]),
    (["horizontalpodautoscalers"], ["autoscaling"], ["v1"]),
    (["horizontalpodautoscalers"], ["autoscaling"], ["v2"]),
    (["gadgets"], ["webhooks.example.dev"], ["v1"]),
    (["gadgets"], ["webhooks.example.dev"], ["v2"]),
    (["gadgets/status", "gadgets"], ["webhooks.example.dev"], ["v2"]),
    (["namespaces", "configmaps"], [""], ["v1"]),
    (["pods/exec"], [""], ["v1"]),
    (["clusterroles"], ["rbac.authorization.k8s.io"], ["v1"]),
]
KINDS = {
    *("ConfigMap", "Deployment", "Scale", "HorizontalPodAutoscaler"),
    *("Gadget", "Namespace", "PodExecOptions", "ClusterRole"),
}
"""The kinds that requests are about."""
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
SELECTORS = [
    {},
    {"matchLabels": {"team": "a"}},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
]
TIERS = [
    {"matchLabels": {"tier": "prod"}},
    {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["prod"]}]},
]


class _Generator:
    """Makes the parts of one program."""

    def __init__(self, number):
        self.number = number
        self._random = random.Random(number)

    def chance(self, probability):
        return self._random.random() < probability

    def choice(self, values):
        return self._random.choice(list(values))

    def rule(self):
        resources, groups, versions = (["*/*"], ["*"], ["*"]) if self.chance(0.4) else self.choice(RESOURCES)
        operations = self.choice([["*"], ["*"], ["CREATE"], ["CREATE", "UPDATE"], ["DELETE"], ["UPDATE", "CONNECT"]])
        rule = {"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources}
        if self.chance(0.2):
            rule["scope"] = self.choice(["Namespaced", "Cluster", "*"])
        return rule

    def conditions(self):
        texts = [text for text, weight in CONDITIONS for _ in range(weight)]
        chosen = dict.fromkeys(self.choice(texts) for _ in range(self._random.randint(1, 2)))
        # Secrets show that a configuration is in effect, which a condition that fails would hide.
        texts = [f"request.resource.resource == 'secrets' || ({text})" for text in chosen]
        return [{"name": f"c{index}", "expression": text} for index, text in enumerate(texts)]

    def webhook(self, index, kind, script):
        fields = {
            "name": f"w{index}.example.dev",
            "path": f"/{kind}{index}/{script}",
            "rules": [self.rule() for _ in range(self._random.randint(1, 2))],
            "failurePolicy": self.choice(["Fail", "Fail", "Ignore"]),
            "admissionReviewVersions": self.choice([["v1"], ["v1", "v1beta1"], ["v1beta1"], ["v9", "v1"]]),
            "namespaceSelector": self.choice(TIERS) if self.chance(0.4) else {},
            "timeoutSeconds": 30,
        }
        if self.chance(0.3):
            fields["objectSelector"] = self.choice(SELECTORS)
        if self.chance(0.3):
            fields["matchPolicy"] = self.choice(["Exact", "Equivalent"])
        if self.chance(0.3):
            fields["matchConditions"] = self.conditions()
        if kind == "m" and self.chance(0.5):
            fields["reinvocationPolicy"] = "IfNeeded"
        if self.chance(0.2):
            fields["sideEffects"] = "NoneOnDryRun"
        return fields

    def webhooks(self, kind):
        count = self._random.randint(1, 4)
        bad = self._random.randrange(count) if self.chance(0.5) else -1
        scripts = []
        for index in range(count):
            if index == bad:
                scripts.append(self.choice(FAILING | BAD_PATCHES if kind == "m" else FAILING))
            else:
                scripts.append(self.choice(SCRIPTS if kind == "m" else ["allow", "warn"]))
        return [self.webhook(index, kind, script) for index, script in enumerate(scripts)]

    # -- requests ----------------------------------------------------------------------------------------------------

    def metadata(self, name):
        labels = self.choice([None, {"team": "a"}, {"team": "b", "skip": "yes"}, {"program": str(self.number)}])
        return {"name": name} if labels is None else {"name": name, "labels": labels}

    def steps(self):
        steps = []
        for _ in range(3):
            steps += self.choice(
                [self.configmaps, self.configmaps, self.deployments, self.scalers, self.gadgets, self.others]
            )(len(steps))
        return steps

    def query(self):
        return "?dryRun=All" if self.chance(0.1) else "?fieldManager=me" if self.chance(0.3) else ""

    def configmaps(self, index):
        name, path = f"p{self.number}-{index}", f"{CORE}/namespaces/{self.choice(['default', 'prod'])}/configmaps"
        body = {"metadata": self.metadata(name)} | ({"data": {"a": "b"}} if self.chance(0.7) else {})
        whole = {"apiVersion": "v1", "kind": "ConfigMap", **body}
        changes = [
            Step("PATCH", f"{path}/{name}{self.query()}", {"data": {"c": "d"}}, MERGE),
            Step("PUT", f"{path}/{name}", {**body, "data": {"e": "f"}}),
            Step("PATCH", f"{path}/{name}?fieldManager=me&force=true", whole, APPLY),
            Step("DELETE", f"{path}/{name}{'?dryRun=All' if self.chance(0.3) else ''}"),
            Step("DELETE", f"{path}?labelSelector=program%3D{self.number}"),
        ]
        first = self.choice([Step("POST", f"{path}{self.query()}", body), Step("POST", path, body), changes[2]])
        return [first, *self._random.sample(changes, 2)]

    def deployments(self, index):
        name, path = f"p{self.number}-{index}", f"{APPS}/namespaces/{self.choice(['default', 'prod'])}/deployments"
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        changes = [
            Step("PATCH", f"{path}/{name}/scale", {"spec": {"replicas": 2}}, MERGE),
            Step("PATCH", f"{path}/{name}/status", {"status": {"observedGeneration": 1}}, MERGE),
            Step("PATCH", f"{path}/{name}", {"spec": {"paused": True}}, MERGE),
            Step("DELETE", f"{path}/{name}"),
        ]
        body = {"metadata": self.metadata(name), "spec": spec}
        return [Step("POST", path, body), *self._random.sample(changes, 2)]

    def scalers(self, index):
        name, version = f"p{self.number}-{index}", self.choice(["v1", "v2"])
        path = f"{SCALERS}/{version}/namespaces/default/horizontalpodautoscalers"
        target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
        body = {"metadata": self.metadata(name), "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
        return [Step("POST", path, body), Step("PATCH", f"{path}/{name}", {"spec": {"maxReplicas": 4}}, MERGE)]

    def gadgets(self, index):
        name, version = f"p{self.number}-{index}", self.choice(["v1", "v2"])
        path = f"{GADGETS}/{version}/namespaces/{self.choice(['default', 'prod'])}/gadgets"
        body = {"apiVersion": f"webhooks.example.dev/{version}", "kind": "Gadget", "metadata": self.metadata(name)}
        changes = [
            Step("PATCH", f"{path}/{name}", {"spec": {"size": 5}}, MERGE),
            Step("PATCH", f"{path}/{name}/status", {"status": {"ready": True}}, MERGE),
            Step("DELETE", f"{path}/{name}"),
        ]
        return [Step("POST", path, body | {"spec": {"size": 2}}), *self._random.sample(changes, 2)]

    def others(self, index):
        name = f"p{self.number}-{index}"
        role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        return [
            Step("POST", f"{CORE}/namespaces", {"metadata": self.metadata(name)}),
            Step("PATCH", f"{CORE}/namespaces/{name}", {"metadata": {"labels": {"tier": "prod"}}}, MERGE),
            Step("POST", f"{CORE}/namespaces/prod/pods/{name}/exec?command=ls&stdout=true"),
            Step("POST", role, {"metadata": self.metadata(name), "rules": [RULE]}),
            Step("POST", f"{CORE}/namespaces/gone/configmaps", {"metadata": self.metadata(name)}),
        ]

    # -- patches -----------------------------------------------------------------------------------------------------

    def patches(self):
        """A Deployment and a custom object, patched in all ways at all of their endpoints, in any order."""
        return [*self.deployment_patches(), *self.gadget_patches()]

    def deployment_patches(self):
        name, path = f"p{self.number}", f"{APPS}/namespaces/{self.choice(['default', 'prod'])}/deployments"
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        first = Step("POST", path, {"metadata": self.metadata(name), "spec": spec})
        targets = [
            ("", "apps/v1", "Deployment", "spec", "minReadySeconds"),
            ("/scale", "autoscaling/v1", "Scale", "spec", "replicas"),
            ("/status", "apps/v1", "Deployment", "status", "observedGeneration"),
        ]
        changes = [step for target in targets for step in self.all_patches(f"{path}/{name}", name, *target)]
        # An apply of a whole object creates it where its creation was refused.
        whole = {"spec": {**spec, "minReadySeconds": 3}, "metadata": {"name": name}}
        changes[3] = changes[3]._replace(body={"apiVersion": "apps/v1", "kind": "Deployment", **whole})
        return [first, *self._random.sample(changes, 8)]

    def gadget_patches(self):
        name, version = f"p{self.number}", self.choice(["v1", "v2"])
        path, group = f"{GADGETS}/{version}/namespaces/default/gadgets", f"webhooks.example.dev/{version}"
        body = {"apiVersion": group, "kind": "Gadget", "metadata": self.metadata(name), "spec": {"size": 2}}
        targets = [("", group, "Gadget", "spec", "size"), ("/status", group, "Gadget", "status", "ready")]
        changes = [step for target in targets for step in self.all_patches(f"{path}/{name}", name, *target)]
        return [Step("POST", path, body), *self._random.sample(changes, 5)]

    def all_patches(self, path, name, endpoint, version, kind, part, field):
        """A patch of each kind that sets a field, each to another value.

        A write of /scale that changes nothing would make kube-apiserver list the owner of the replicas twice.
        """
        values = [True, False, True, False] if field == "ready" else self._random.sample(range(2, 99), 4)
        bodies = [{part: {field: value}} for value in values]
        operations = [{"op": "add", "path": f"/{part}", "value": {}}] if part == "status" else []
        operations.append({"op": "add", "path": f"/{part}/{field}", "value": values[2]})
        whole = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **bodies[3]}
        where = f"{path}{endpoint}"
        return [
            Step("PATCH", f"{where}{self.query()}", bodies[0], MERGE),
            Step("PATCH", f"{where}{self.query()}", bodies[1], STRATEGIC),
            Step("PATCH", where, operations, JSON_PATCH),
            Step("PATCH", f"{where}?fieldManager=me&force=true", whole, APPLY),
        ]


class Program(NamedTuple):
    """Two configurations, as fields of `AdmissionWebhook.webhook`, and requests."""

    number: int
    mutating: list
    validating: list
    steps: list


def program(number):
    """The program of a number, the same every time."""
    made = _Generator(number)
    return Program(number, made.webhooks("m"), made.webhooks("v"), made.steps() if number < COUNT else made.patches())


PROGRAMS = {number: program(number) for number in range(COUNT + PATCHES)}


# -- running ----------------------------------------------------------------------------------------------------------


def _definition():
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "maximum": 100},
                    "color": {"type": "string", "default": "blue"},
                },
            },
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    }
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        for name in ("v1", "v2")
    ]
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "metadata": {"name": "gadgets.webhooks.example.dev"},
        "spec": {"group": "webhooks.example.dev", "scope": "Namespaced", "names": names, "versions": versions},
    }


MARKERS = f"{CORE}/namespaces/default/secrets?dryRun=All"


def _marker(kind, number):
    """A webhook that shows that a configuration is in effect: it refuses Secrets with the number of the program."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
    return {
        "name": "marker.example.dev",
        "path": f"/{kind}/marker",
        "rules": [rule],
        "objectSelector": {"matchLabels": {f"marker-{kind}": str(number)}},
    }


async def outcomes(send, webhook, programs):
    """Run programs on a server; returns the outcomes of each by its number.

    `send(method, path, body, media)` is a coroutine function that returns status, body and warnings.
    """
    webhook.answer = answer
    await _prepare(send)
    found = {}
    for one in programs:
        await _configure(send, webhook, one)
        found[one.number] = [await _outcome(send, webhook, step) for step in one.steps]
    return found


async def _prepare(send):
    assert (await send("POST", DEFINITIONS, _definition(), JSON))[0] == 201
    prod = {"metadata": {"name": "prod", "labels": {"tier": "prod"}}}
    assert (await send("POST", f"{CORE}/namespaces", prod, JSON))[0] == 201
    for version in ("v1", "v2"):
        while (await send("GET", f"{GADGETS}/{version}/gadgets", None, JSON))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _configure(send, webhook, one):
    """Replace the configurations, and wait until both are in effect: kube-apiserver follows its own writes later.

    Mutating webhooks come last, since they may refuse what shows that validating ones are in effect.
    """
    await _put(send, webhook, MUTATING, [_marker("m", f"{one.number}-none")])
    await _put(send, webhook, VALIDATING, [_marker("v", one.number), *one.validating])
    await _put(send, webhook, MUTATING, [_marker("m", one.number), *one.mutating])


async def _put(send, webhook, path, webhooks):
    body = {"metadata": {"name": "programs"}, "webhooks": [webhook.webhook(**fields) for fields in webhooks]}
    status, current, _ = await send("GET", f"{path}/programs", None, JSON)
    if status == 404:
        status, current, _ = await send("POST", path, body, JSON)
    else:
        body["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        status, current, _ = await send("PUT", f"{path}/programs", body, JSON)
    assert status in (200, 201), current
    marker = webhooks[0]
    secret = {"metadata": {"name": "marker", "labels": marker["objectSelector"]["matchLabels"]}}
    webhook.calls.clear()
    while marker["path"] not in webhook.called_paths:
        await asyncio.sleep(0.01)
        await send("POST", MARKERS, secret, JSON)


async def _outcome(send, webhook, step):
    webhook.calls.clear()
    status, body, warnings = await send(step.method, step.path, step.body, step.media)
    failed = status >= 400
    message = normalized_text(body.get("message", ""), webhook) if failed else ""
    if not failed and step.method == "DELETE":
        body = None  # Which form of answer a deletion has is compared elsewhere.
    calls = [(call.target.partition("?")[0], _request(call)) for call in _final(webhook.calls)]
    if status == 404:
        calls = [one for one in calls if one[1]["oldObject"] is None]
    ordered = [one for one in calls if one[0].startswith("/m")]
    ordered += sorted(
        (one for one in calls if one[0].startswith("/v")), key=lambda one: json.dumps(one, sort_keys=True)
    )
    shown = None if failed else normalized(body)
    return Outcome(status, message, sorted(normalized_text(one, webhook) for one in warnings), shown, ordered)


def _final(calls):
    """The calls about a step, without those about a state that was not up to date: then a step is decided again.

    Servers write Leases and Endpoints of their own at any time.
    """
    own = [call for call in calls if call.review["request"]["kind"]["kind"] in KINDS]
    latest = {}
    for call in own:
        name, revision = _state(call)
        latest[name] = max(latest.get(name, 0), revision)
    return [call for call in own if _state(call)[1] == latest[_state(call)[0]]]


def _state(call):
    """Name and revision of the stored object that a call is about; one that is created comes after all others."""
    request = call.review["request"]
    metadata = (request["oldObject"] or {}).get("metadata", {})
    revision = int(metadata.get("resourceVersion") or 0)
    return metadata.get("name") or request.get("name"), sys.maxsize if request["operation"] == "CREATE" else revision


def _request(call):
    request = call.review["request"]
    kept = {key: value for key, value in request.items() if key not in ("uid", "userInfo")}
    return {"version": call.review["apiVersion"], **normalized(kept)}


def normalized_text(text, webhook):
    """A message without what differs between servers and runs."""
    text = text.replace(str(webhook.port), "PORT")
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", text)


_CHANGING = ("uid", "resourceVersion", "creationTimestamp", "time", "deletionTimestamp", "lastTransitionTime")


def normalized(value):
    """An object without what differs between servers and runs."""
    if isinstance(value, dict):
        if value.get("kind") == "Scale" and "metadata" in value:
            value = {**value, "metadata": {**value["metadata"], "managedFields": None}}
        return {key: normalized(below) for key, below in sorted(value.items()) if key not in _CHANGING}
    if isinstance(value, list):
        made = [normalized(below) for below in value]
        # Owners of fields are sorted by their times, which are whole seconds.
        has_owners = all(isinstance(one, dict) and "fieldsV1" in one for one in made)
        return sorted(made, key=lambda one: json.dumps(one, sort_keys=True)) if has_owners else made
    return value
