"""Random admission policies, bindings and params, with requests to try them on: for Kapi and for kube-apiserver alike.

Each program has a namespace of its own, which its policies are limited to, so that all programs can be set up at once:
kube-apiserver takes a second to notice a policy. What a program's requests are answered is reduced by `summary` to what
must be the same on both.
"""

import copy
import json
import random
import re
from typing import NamedTuple

from policy_expressions import (
    ANNOTATIONS,
    APPLIED,
    APPLIED_BY_KIND,
    APPLIED_PARAMS,
    AUTOSCALER,
    BY_KIND,
    CONDITIONS,
    CONFIG_MAP,
    DEPLOYMENT,
    GENERAL,
    JSON_PATCHES,
    JSON_PATCHES_BY_KIND,
    LABELS,
    MESSAGES,
    PARAM_MESSAGES,
    RULES,
    VARIABLES,
    WIDGET,
    WITH_PARAMS,
    WITH_VARIABLES,
)

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
ALICE = ("alice",)
ADMIN = ("administrator", "system:masters")

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.policies.example.com"},
    "spec": {
        "group": "policies.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 3},
                                    "mode": {"type": "string"},
                                    "ports": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "port": {"type": "integer"},
                                            },
                                        },
                                    },
                                    "tags": {"type": "array", "items": {"type": "string"}},
                                },
                            }
                        },
                    }
                },
            }
            for name in ("v1", "v1beta1")
        ],
    },
}


class Step(NamedTuple):
    """One request. `user` is the name and the groups of the user that is impersonated."""

    method: str
    path: str
    body: dict | list | None = None
    user: tuple = ADMIN
    content_type: str = "application/json"

    def headers(self):
        """The headers of the request."""
        name, *groups = self.user
        return [
            ("content-type", self.content_type),
            ("impersonate-user", name),
            *(("impersonate-group", group) for group in groups),
        ]


class Program(NamedTuple):
    """Objects to create first, and then requests."""

    name: str
    setup: list
    steps: list


BEFORE_ALL = [
    Step("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS),
    Step(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {
            "metadata": {"name": "policy-editor"},
            "rules": [
                {
                    "apiGroups": ["", "apps", "autoscaling", "policies.example.com"],
                    "resources": ["*"],
                    "verbs": ["get", "create", "update", "patch", "delete"],
                },
                {"nonResourceURLs": ["/policy"], "verbs": ["get"]},
            ],
        },
    ),
    Step(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "policy-editor"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "policy-editor"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ALICE[0]}],
        },
    ),
]


class Maker:
    """Makes one program of a seed."""

    def __init__(self, number):
        self.random = random.Random(f"policies {number}")
        self.namespace = f"policy-{number}"
        self.kind = self.random.choice([CONFIG_MAP, CONFIG_MAP, DEPLOYMENT, AUTOSCALER, WIDGET])
        self.setup = [
            Step(
                "POST",
                "/api/v1/namespaces",
                {"metadata": {"name": self.namespace, "labels": {"team": self.random.choice(["red", "blue"])}}},
            )
        ]

    def some(self, values, most, least=0):
        """A random number of the values, in random order."""
        return self.random.sample(values, self.random.randint(least, min(most, len(values))))

    def chance(self, likelihood):
        """True as often as that."""
        return self.random.random() < likelihood

    def match(self, operations, *, is_binding=False):
        """Random match resources, limited to the namespace of the program."""
        rule = {"operations": operations, **copy.deepcopy(RULES[self.kind])}
        if self.chance(0.2):
            rule["resources"] = ["*"]
        if self.kind == DEPLOYMENT and self.chance(0.3):
            rule["resources"] = self.random.choice([["deployments/scale"], ["deployments", "deployments/*"], ["*/*"]])
        if self.chance(0.1):
            rule["apiVersions"] = ["*"]
        if self.chance(0.1):
            rule["scope"] = self.random.choice(["Cluster", "Namespaced"])
        if self.chance(0.1):
            rule["resourceNames"] = self.some(["one", "two", "bad"], 2, 1)
        match = {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
        }
        if is_binding and self.chance(0.5):
            del match["resourceRules"]
        if self.chance(0.3):
            match["matchPolicy"] = "Exact"
        if self.chance(0.15):
            match["objectSelector"] = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
        if self.chance(0.1):
            match["excludeResourceRules"] = [{**rule, "resourceNames": ["two"]}]
        return match

    def params(self):
        """A paramKind and a paramRef, with the params that they mean in the set-up; both None as often."""
        if self.chance(0.45):
            return None, None
        kind = self.random.choice(["ConfigMap", "ConfigMap", "Widget", "Namespace", "Missing"])
        api_version = {"Widget": "policies.example.com/v1", "Missing": "policies.example.com/v1"}.get(kind, "v1")
        reference = {"parameterNotFoundAction": self.random.choice(["Deny", "Allow"])}
        if self.chance(0.7):
            reference["name"] = self.random.choice(["limits", "limits", "missing"])
            if kind == "Namespace":
                reference["name"] = "default"
        else:
            reference["selector"] = {"matchLabels": {"role": self.random.choice(["limits", "nope"])}}
        if self.chance(0.3):
            reference["namespace"] = self.random.choice([self.namespace, self.namespace, "default"])
        metadata = {"name": "limits", "labels": {"role": "limits"}}
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        if kind == "ConfigMap":
            data = {"mode": self.random.choice(["strict", "lax"]), "deny": "bad"}
            self.setup.append(Step("POST", path, {"metadata": metadata, "data": data}))
        elif kind == "Widget":
            path = f"/apis/policies.example.com/v1/namespaces/{self.namespace}/widgets"
            body = {"apiVersion": "policies.example.com/v1", "kind": "Widget", "metadata": metadata}
            self.setup.append(Step("POST", path, {**body, "spec": {"mode": "strict"}}))
        return {"apiVersion": api_version, "kind": kind}, reference if self.chance(0.9) else None

    def expressions(self, has_params):
        """The expressions that fit the kind and the params."""
        found = GENERAL + BY_KIND[self.kind] * 4 + WITH_VARIABLES * 2
        return found + WITH_PARAMS * 5 if has_params else found

    def variables(self, has_params):
        """All variables: those that are not used are not evaluated."""
        names = [name for name in VARIABLES if has_params or name != "params"]
        return [{"name": name, "expression": VARIABLES[name]} for name in names]

    def spec(self, operations, param_kind):
        """The fields that both kinds of policy have."""
        spec = {"matchConstraints": self.match(operations), "variables": self.variables(param_kind is not None)}
        if param_kind is not None:
            spec["paramKind"] = param_kind
        if self.chance(0.3):
            spec["failurePolicy"] = "Ignore"
        if self.chance(0.3):
            chosen = self.some(CONDITIONS, 2, 1)
            spec["matchConditions"] = [{"name": f"c{place}", "expression": one} for place, one in enumerate(chosen)]
        return spec

    def validation(self, has_params):
        """One validation."""
        made = {"expression": self.random.choice(self.expressions(has_params))}
        if self.chance(0.3):
            made["message"] = "  a message "
        if self.chance(0.5):
            made["messageExpression"] = self.random.choice(MESSAGES + (PARAM_MESSAGES * 3 if has_params else []))
        if self.chance(0.3):
            made["reason"] = self.random.choice(["Forbidden", "Invalid", "RequestEntityTooLarge"])
        return made

    def validating(self):
        """A validating policy and its bindings. Only one of them denies: which of several is reported is random."""
        param_kind, reference = self.params()
        operations = self.random.choice([["CREATE"], ["CREATE", "UPDATE"], ["*"], ["UPDATE", "DELETE"]])
        spec = self.spec(operations, param_kind)
        spec["validations"] = [self.validation(param_kind is not None) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.2):
            expression = self.random.choice(ANNOTATIONS)
            spec["auditAnnotations"] = [{"key": "note", "valueExpression": expression}]
        self.setup.append(
            Step(
                "POST", f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": self.namespace}, "spec": spec}
            )
        )
        actions = [["Deny"], ["Deny"], ["Deny", "Audit"], ["Warn"], ["Audit"], ["Warn", "Audit"]]
        for number in range(self.random.choice([1, 1, 2])):
            bound = {"policyName": self.namespace}
            bound["validationActions"] = self.random.choice(actions if not number else actions[3:])
            if reference is not None and not number:
                bound["paramRef"] = reference
            if number or self.chance(0.3):
                bound["matchResources"] = self.match(["*"], is_binding=True)
            name = f"{self.namespace}-{'ab'[number]}"
            path = f"{ADMISSION}/validatingadmissionpolicybindings"
            self.setup.append(Step("POST", path, {"metadata": {"name": name}, "spec": bound}))

    def mutation(self, has_params):
        """One mutation."""
        if self.chance(0.5):
            source = self.random.choice(JSON_PATCHES + JSON_PATCHES_BY_KIND[self.kind] * 3)
            return {"patchType": "JSONPatch", "jsonPatch": {"expression": source}}
        pool = APPLIED + APPLIED_BY_KIND[self.kind] * 3 + (APPLIED_PARAMS * 5 if has_params else [])
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": self.random.choice(pool)}}

    def mutating(self):
        """A mutating policy and its binding; the order of several is random in kube-apiserver."""
        param_kind, reference = self.params()
        operations = self.random.choice([["CREATE"], ["CREATE", "UPDATE"], ["*"], ["UPDATE"]])
        spec = self.spec(operations, param_kind)
        spec["mutations"] = [self.mutation(param_kind is not None) for _ in range(self.random.choice([1, 1, 2, 3]))]
        spec["reinvocationPolicy"] = self.random.choice(["Never", "IfNeeded"])
        bound = {"policyName": self.namespace}
        if reference is not None:
            bound["paramRef"] = reference
        if self.chance(0.3):
            bound["matchResources"] = self.match(["*"], is_binding=True)
        self.bind(self.namespace, spec, bound)

    def bind(self, name, spec, bound):
        """Create a mutating policy and a binding."""
        policy = {"metadata": {"name": name}, "spec": spec}
        self.setup.append(Step("POST", f"{ADMISSION}/mutatingadmissionpolicies", policy))
        binding = {"metadata": {"name": f"{name}-a"}, "spec": bound}
        self.setup.append(Step("POST", f"{ADMISSION}/mutatingadmissionpolicybindings", binding))

    def reinvoked(self):
        """Two mutating policies of which one does something only after the other, in whatever order they run."""
        first, second = "first", "second"
        for name, label, after in ((first, "one", "tier"), (second, "two", "one")):
            spec = self.spec(["CREATE", "UPDATE"], None)
            spec |= {"matchConstraints": {"resourceRules": [{"operations": ["*"], **RULES[self.kind]}]}}
            spec["matchConstraints"]["namespaceSelector"] = {
                "matchLabels": {"kubernetes.io/metadata.name": self.namespace}
            }
            spec.pop("matchConditions", None)
            condition = f"{LABELS} && '{after}' in object.metadata.labels"
            source = f"{condition} ? Object{{metadata: Object.metadata{{labels: {{'{label}': 'yes'}}}}}} : Object{{}}"
            spec["mutations"] = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": source}}]
            spec["reinvocationPolicy"] = "IfNeeded"
            self.bind(f"{self.namespace}-{name}", spec, {"policyName": f"{self.namespace}-{name}"})

    # -- requests ---------------------------------------------------------------------------------------------------

    def obj(self, name, version=None):
        """A random object of the kind of the program, and the path of its collection."""
        metadata = {"name": name}
        if self.chance(0.5):
            metadata["labels"] = {"tier": self.random.choice(["front", "bad"])}
        if self.chance(0.3):
            metadata["annotations"] = {"a": "b"}
        if self.kind == CONFIG_MAP:
            data = {key: self.random.choice(["v", "secret"]) for key in self.some(["k", "l", "m"], 3)}
            return "/api/v1", "ConfigMap", {"metadata": metadata, "data": data}
        if self.kind == DEPLOYMENT:
            return "/apis/apps/v1", "Deployment", {"metadata": metadata, "spec": self.deployment()}
        if self.kind == AUTOSCALER:
            version = version or self.random.choice(["v1", "v2"])
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
            spec = {"maxReplicas": self.random.choice([2, 8]), "scaleTargetRef": target}
            if version == "v1":
                spec["targetCPUUtilizationPercentage"] = 80
            return f"/apis/autoscaling/{version}", "HorizontalPodAutoscaler", {"metadata": metadata, "spec": spec}
        version = version or self.random.choice(["v1", "v1beta1"])
        spec = {"mode": self.random.choice(["a", "strict"]), "size": self.random.choice([2, 5])}
        if self.chance(0.5):
            spec["ports"] = [{"name": "http", "port": 80}]
        if self.chance(0.2):
            del spec["size"]
        return f"/apis/policies.example.com/{version}", "Widget", {"metadata": metadata, "spec": spec}

    def deployment(self):
        """The spec of a Deployment."""
        labels = {"app": "web"}
        container = {"name": self.random.choice(["main", "side"]), "image": self.random.choice(["a", "a:1"])}
        if self.chance(0.3):
            container["resources"] = {"limits": {"cpu": "1"}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        return {"replicas": self.random.choice([1, 9]), "selector": {"matchLabels": labels}, "template": template}

    def steps(self):
        """Requests: creations, changes of what was created, and deletions, by an administrator and by alice."""
        steps = []
        for name in self.some(["one", "two", "bad", "skip"], 3, 2):
            base, kind, obj = self.obj(name)
            collection = f"{base}/namespaces/{self.namespace}/{self.kind}"
            path = f"{collection}/{name}"
            user = self.random.choice([ADMIN, ALICE])
            whole = {"apiVersion": base.removeprefix("/apis/").removeprefix("/api/"), "kind": kind, **obj}
            if self.chance(0.15):
                generated = copy.deepcopy(whole)
                del generated["metadata"]["name"]
                generated["metadata"]["generateName"] = "gen-"
                steps.append(Step("POST", f"{collection}?dryRun=All", generated, user))
            if self.chance(0.3):
                steps.append(Step("PATCH", f"{path}?fieldManager=m&force=true", whole, user, APPLY))
            else:
                steps.append(Step("POST", collection, whole, user))
            _, _, changed = self.obj(name, base.rpartition("/")[2])
            steps.append(Step("PATCH", path, changed, user, MERGE))
            if self.chance(0.3):
                steps.append(
                    Step("PATCH", f"{path}?dryRun=All", {"metadata": {"annotations": {"x": "y"}}}, user, MERGE)
                )
            if self.kind == DEPLOYMENT and self.chance(0.4):
                steps.append(Step("PATCH", f"{path}/scale", {"spec": {"replicas": 2}}, user, MERGE))
            if self.kind == DEPLOYMENT and self.chance(0.3):
                steps.append(Step("PATCH", f"{path}/status", {"status": {"replicas": 2}}, user, MERGE))
            if self.chance(0.4):
                steps.append(Step("DELETE", path, None, user))
        return steps


def validating_program(number):
    """A program with one validating policy."""
    maker = Maker(number)
    maker.validating()
    return Program(maker.namespace, maker.setup, maker.steps())


def mutating_program(number):
    """A program with one mutating policy, or with two of which one waits for the other."""
    maker = Maker(number)
    if number % 10 or maker.kind == AUTOSCALER:
        maker.mutating()
    else:
        maker.reinvoked()
    return Program(maker.namespace, maker.setup, maker.steps())


REQUESTS = "policy-requests"
SHOWN = {
    "operation": "request.operation",
    "name": "request.?name.orValue('-')",
    "namespace": "request.?namespace.orValue('-')",
    "kind": "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind",
    "resource": "request.resource.resource + '/' + request.?subResource.orValue('-')",
    "namespaceObject": "namespaceObject == null ? 'null' : namespaceObject.metadata.name",
    "object": "object == null ? 'null' : string(object.?kind.orValue('-')) + string(object.?apiVersion.orValue('-'))",
    "oldObject": "oldObject == null ? 'null' : string(oldObject.?kind.orValue('-'))",
    "options": "has(request.options) && request.options != null ? '%s'.format([request.options]) : 'none'",
    "dryRun": "request.dryRun",
}
"""What a message tells of a request."""


def request_program():
    """A program whose policy denies every kind of request, and says in its message what it sees of it."""
    here, name = f"/api/v1/namespaces/{REQUESTS}", REQUESTS
    apps = f"/apis/apps/v1/namespaces/{REQUESTS}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    pod = {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "b"}]}
    resources = ["namespaces", "clusterroles", "configmaps", "pods", "bindings"]
    subresources = [f"{one}/*" for one in ("namespaces", "pods", "deployments", "services")]
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources + subresources}
    own = " || ".join(f"request.?{one}.orValue('').startsWith('{name}')" for one in ("namespace", "name"))
    told = "|".join(f"{one}=%s" for one in SHOWN)
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "own", "expression": own}],
        "validations": [
            {"expression": "false", "messageExpression": f"'{told}'.format([{', '.join(SHOWN.values())}])"}
        ],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    setup = [
        Step("POST", "/api/v1/namespaces", {"metadata": {"name": name}}),
        Step("POST", f"{here}/serviceaccounts", {"metadata": {"name": "default"}}),
        Step("POST", f"{here}/configmaps", {"metadata": {"name": "c"}}),
        Step("POST", f"{here}/pods", {"metadata": {"name": "p"}, "spec": pod}),
        Step("POST", f"{here}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        Step(
            "POST",
            apps,
            {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
        ),
        Step("POST", f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec}),
        Step("POST", f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": bound}),
    ]
    labels, target = {"metadata": {"labels": {"x": "y"}}}, {"target": {"kind": "Node", "name": "x"}}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"z": "z"}}
    steps = [
        Step("POST", "/api/v1/namespaces", {"metadata": {"name": f"{name}-2"}}),
        Step("PATCH", here, labels, content_type=MERGE),
        Step("DELETE", here),
        Step("PUT", f"{here}/finalize", {"metadata": {"name": name}, "spec": {"finalizers": []}}),
        Step("PATCH", f"{here}/status", labels, content_type=MERGE),
        Step("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": name}, "rules": []}),
        Step("POST", f"{here}/configmaps?fieldManager=m&fieldValidation=Strict", {"metadata": {"name": "n"}}, ALICE),
        Step("PUT", f"{here}/configmaps/c?dryRun=All", {"metadata": {"name": "c"}, "data": {"a": "b"}}),
        Step("PATCH", f"{here}/configmaps/c", {"data": {"a": "b"}}, content_type=MERGE),
        Step("PATCH", f"{here}/configmaps/c?fieldManager=m&force=true", applied, content_type=APPLY),
        Step(
            "PATCH",
            f"{here}/configmaps/n?fieldManager=m",
            {**applied, "metadata": {"name": "n"}},
            content_type=APPLY,
        ),
        Step("DELETE", f"{here}/configmaps/c", {"gracePeriodSeconds": 3, "propagationPolicy": "Orphan"}),
        Step("DELETE", f"{here}/configmaps/c?dryRun=All&gracePeriodSeconds=0"),
        Step("DELETE", f"{here}/configmaps"),
        Step("POST", f"{here}/pods/p/eviction", {"metadata": {"name": "p", "namespace": name}}),
        Step("POST", f"{here}/pods/p/binding", {"metadata": {"name": "p"}, **target}),
        Step("POST", f"{here}/bindings", {"metadata": {"name": "p"}, **target}),
        Step("PATCH", f"{here}/pods/p/status", {"status": {"phase": "Running"}}, content_type=MERGE),
        Step("GET", f"{here}/pods/p/exec?command=ls&stdout=true"),
        Step("GET", f"{here}/pods/p/proxy/x"),
        Step("GET", f"{here}/services/s/proxy/x"),
        Step("GET", f"{here}/pods/p/portforward?ports=80"),
        Step("PATCH", f"{apps}/d/scale", {"spec": {"replicas": 2}}, content_type=MERGE),
        Step("PATCH", f"{apps}/d/status", {"status": {"replicas": 2}}, content_type=MERGE),
    ]
    return Program(name, setup, steps)


_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "deletionTimestamp")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GENERATED = re.compile(r"gen-[a-z0-9]{5}")


def summary(status, body, warnings):
    """What must be the same: the status, what is said in an error, the object otherwise, and the warnings."""
    return [status, _without_generated(_essence(status, body)), sorted(map(_without_generated, warnings))]


def _essence(status, body):
    if not isinstance(body, dict):
        return body
    if body.get("kind") != "Status":
        metadata = {key: value for key, value in body["metadata"].items() if key not in _VOLATILE}
        return {**body, "metadata": metadata}
    kept = {key: copy.deepcopy(body[key]) for key in ("message", "reason", "details") if key in body}
    if status < 300:
        kept.get("details", {}).pop("uid", None)
    return kept


def _without_generated(value):
    if isinstance(value, str):
        return _UID.sub("UID", _GENERATED.sub("gen-?", value))
    if isinstance(value, dict):
        return {key: _without_generated(item) for key, item in value.items()}
    return [_without_generated(item) for item in value] if isinstance(value, list) else value


def verdict(answer):
    """The part of a summary that is recorded: without the objects of requests that were allowed."""
    status, body, warnings = answer
    if status >= 300:
        return [status, body["message"], body.get("reason", ""), *([warnings] if warnings else [])]
    return [status, *([warnings] if warnings else [])]


async def answered_by_kapi(serving, programs):
    """The summaries of the answers of a Kapi in memory, by program."""
    async with serving() as api:

        async def send(step):
            content = b"" if step.body is None else json.dumps(step.body).encode()
            answer = await api.request(step.method, step.path, content, headers=dict(step.headers()))
            return summary(answer.status, answer.json, answer.warnings)

        programs = list(programs)
        for step in [*BEFORE_ALL, *(step for program in programs for step in program.setup)]:
            assert (await send(step))[0] == 201, step
        return {program.name: [await send(step) for step in program.steps] for program in programs}


VALIDATING, MUTATING = range(300), range(1000, 1300)
PROGRAMS = {
    program.name: program
    for program in [request_program(), *map(validating_program, VALIDATING), *map(mutating_program, MUTATING)]
}
RECORDED = [REQUESTS, *(f"policy-{number}" for number in [*VALIDATING[:40], *MUTATING[:40]])]
"""The programs whose verdicts are recorded."""
