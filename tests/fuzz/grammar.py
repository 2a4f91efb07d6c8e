"""The grammar: from a seed and a number to one request, the same each time.

A request is put together from parts that mean something, so that most get far into the server; about one in four is then made
hostile. Nothing here looks at answers: what depends on them is a reference (`request.py`).
"""

import random
from urllib.parse import quote

from .body import DAMAGED
from .definitions import random_definition
from .kinds import BUILTIN, KINDS, NAMES, NAMESPACES, REVIEWS
from .rawhttp import broken
from .request import Request
from .values import anything, inflated, made_up, mutated, pointers, scalar

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTS = (
    JSON, JSON, "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io", PROTOBUF, f"{PROTOBUF},application/json", "application/cbor", "text/html", ",;q=", "",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "application/json;stream=watch",
)  # fmt: skip
SELECTORS = (
    "a=b", "a==b", "a!=b", "a", "!a", "a in (b,c)", "a notin (b)", "a=b,c=d", "a>1", "a<x", "=", "a in ()", "a in (b", "é=é", "kubernetes.io/x=y",
    "a,a,a", "a=" + "x" * 64, ",".join(f"!k{number}" for number in range(300)),
)  # fmt: skip
LIST_OPTIONS = {
    "limit": ("1", "2", "500", "0", "-1", "x", "9223372036854775808"),
    # A revision of the future is waited for, for three seconds: seldom.
    "resourceVersion": (*("0", "1", "", "-1", "x", "18446744073709551616") * 5, "99999999"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "labelSelector": SELECTORS,
    "fieldSelector": (
        "metadata.name=fuzz-0",
        "metadata.namespace!=default",
        "spec.x=y",
        "metadata.name",
        "=,=",
        "a=b=c",
    ),
    "timeoutSeconds": ("1", "0", "-1", "x"),
    "pretty": ("true", "1", "x"),
    "includeObject": ("None", "Metadata", "Object", "x"),
    "continue": ("", "x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0"),
}
WATCH_OPTIONS = {
    **{name: values for name, values in LIST_OPTIONS.items() if name not in ("limit", "continue")},
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "false", "x"),
}
WRITE_OPTIONS = {
    "dryRun": ("All", "All", "All", "x", ""),
    "fieldManager": ("fuzz", "fuzz", "other", "other", "x" * 129, "é", ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "Ignore", "x"),
    "pretty": ("true",),
    "timeout": ("10s", "10s", "30s", "0s", "-1s", "x", "2h"),
}
DELETE_OPTIONS = {
    "gracePeriodSeconds": ("0", "1", "-1", "x"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "orphanDependents": ("true", "false", "x"),
    "dryRun": ("All", "x"),
}
PAGES = (
    "/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/fixed.fuzz.example.com/v1", "/version", "/healthz", "/livez", "/readyz",
    "/readyz?verbose", "/livez?exclude=ping", "/readyz/ping", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3",
    "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1?hash=x", "/openapi/v3/apis/fixed.fuzz.example.com/v1", "/logs", "/debug/pprof/", "/nothing",
    "/.well-known/openid-configuration", "/openid/v1/jwks", "/api/v1/namespaces/default/pods/fuzz-0/log",
)  # fmt: skip
HEADERS = (
    ("Impersonate-User", "x"), ("Audit-Id", "x" * 200), ("Accept-Encoding", "gzip"), ("If-None-Match", '"x"'), ("Content-Encoding", "gzip"),
    ("User-Agent", "x" * 3000), ("X-Forwarded-For", "1.2.3.4"), ("traceparent", "00-x"), ("Kubectl-Command", "é"), ("Accept-Charset", "x"),
)  # fmt: skip
BODIES_AS = (*(JSON,) * 40, *("application/yaml",) * 4, PROTOBUF, "text/plain", "")

SERVER_OBJECTS = ("customresourcedefinitions", "clusterroles", "clusterrolebindings")
"""Kinds of which only the fuzzer's objects are deleted: the definitions of what is compared, and the controllers' permissions."""

VERBS = {
    "create": 20,
    "update": 12,
    "patch": 14,
    "apply": 8,
    "delete": 6,
    "deletecollection": 1,
    "get": 6,
    "list": 8,
    "watch": 2,
    "subresource": 8,
    "review": 3,
    "definition": 3,
    "page": 3,
    "path": 1,
    "raw": 3,
}


class Grammar:
    """Requests by number; `kinds` are the plurals they are restricted to, all by default."""

    def __init__(self, seed, kinds=()):
        self.seed = seed
        self.kinds = [kind for kind in KINDS if not kinds or kind.plural in kinds]
        self._verbs = {verb: weight for verb, weight in VERBS.items() if not kinds or verb not in _WITHOUT_KIND}

    def request(self, number):
        """The request of a number."""
        return _Sentence(random.Random(f"{self.seed}/{number}"), self.kinds, self._verbs).make()


_WITHOUT_KIND = ("review", "definition", "page", "path", "raw")


class _Sentence:
    """One request in the making."""

    def __init__(self, rng, kinds, verbs):
        self.rng = rng
        self.kinds = kinds
        self.verbs = verbs

    def chance(self, probability):
        return self.rng.random() < probability

    def make(self):
        (verb,) = self.rng.choices(tuple(self.verbs), self.verbs.values())
        return getattr(self, f"make_{verb}")()

    # -- parts

    def kind(self, verb):
        """A kind that has a verb; now and then one that has not."""
        kind = self.rng.choice(self.kinds)
        for _ in range(20):
            if verb in kind.verbs or self.chance(0.01):
                break
            kind = self.rng.choice(self.kinds)
        return kind

    def namespace(self):
        return self.rng.choices((*NAMESPACES, "fuzz-c", "missing"), (*(50,) * len(NAMESPACES), 3, 1))[0]

    def name(self, kind):
        if self.chance(0.02):
            return quote(self.rng.choice(("..", "A", "a" * 254, "é", "a%2fb", "@", "x y")))
        return self.rng.choice(kind.names)

    def query(self, options, share=0.05):
        pairs = [(name, self.rng.choice(values)) for name, values in options.items() if self.chance(share)]
        if self.chance(0.02):
            pairs += [*pairs[:1], ("unknown", "x")]
        return "&".join(f"{name}={quote(value, safe='@()/')}" for name, value in pairs)

    def headers(self, *pairs):
        """Headers; what is read is asked for in many forms, what is written mostly in one."""
        found = [pair for pair in pairs if pair[1]]
        if self.chance(0.04 if found else 0.3):
            found.append(("Accept", self.rng.choice(ACCEPTS)))
        if self.chance(0.03):
            found.append(self.rng.choice(HEADERS))
        return tuple(found)

    def user(self):
        return self.rng.choices(("admin", "anonymous", "invalid"), (97, 2, 1))[0]

    def metadata(self, kind, name, namespace):
        metadata = {"name": name}
        if kind.namespaced and self.chance(0.3):
            metadata["namespace"] = namespace
        if self.chance(0.3):
            metadata["labels"] = self.rng.choice(({"a": "b"}, {"a": "c", "d": "e"}, {}))
        if self.chance(0.15):
            metadata["annotations"] = {"x": self.rng.choice(("", "y", "@text(2000)"))}
        if self.chance(0.05):
            metadata["finalizers"] = ["example.com/hold"]
        if self.chance(0.05):
            owner = self.rng.choice(NAMES)
            path = f"/api/v1/namespaces/{namespace}/configmaps/{owner}"
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner,
                    "uid": f"@uid({path})",
                    "controller": self.chance(0.5),
                }
            ]
        if self.chance(0.02):
            metadata.pop("name")
            metadata["generateName"] = "fuzz-"
        return metadata

    def obj(self, kind, name, namespace):
        """An object: small and valid, with fields from its schema, or hostile."""
        tree = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": self.metadata(kind, name, namespace),
            **kind.valid,
        }
        if kind.schema is not None and self.chance(0.35):
            fields = [field for field in kind.schema.properties if field not in ("apiVersion", "kind", "metadata")]
            for field in self.rng.sample(fields, min(len(fields), self.rng.choice((1, 1, 3)))):
                tree[field] = self.merged(tree.get(field), made_up(self.rng, kind.schema.properties[field], 2))
        return self.hostile(tree)

    def merged(self, old, new):
        """Fields of both, so that what is required stays."""
        return {**new, **old} if isinstance(old, dict) and isinstance(new, dict) and self.chance(0.7) else new

    def hostile(self, tree):
        pick = self.rng.random()
        if pick < 0.01:
            return inflated(self.rng, tree)
        if pick < 0.02:
            return anything(self.rng)
        while pick < 0.2:
            tree, pick = mutated(self.rng, tree), self.rng.random()
        return tree

    def body(self, tree, content_type=None):
        """Content type, tree and form."""
        if content_type is None:
            content_type = self.rng.choice(BODIES_AS)
        if self.chance(0.04):
            return content_type, tree, self.rng.choice(DAMAGED)
        if content_type == PROTOBUF:
            return content_type, tree, "protobuf"
        if "yaml" in content_type and self.chance(0.5):
            return content_type, tree, "yaml"
        return content_type, tree, "ascii" if self.chance(0.1) else "json"

    def sent(self, verb, kind, method, path, options, tree, content_type=None):
        content_type, tree, form = self.body(tree, content_type)
        query = self.query(options)
        return Request(
            verb, kind.label, method, f"{path}?{query}" if query else path, self.headers(("Content-Type", content_type)), tree, form,
            self.user(),
        )  # fmt: skip

    def asked(self, verb, label, path, query=""):
        method = "HEAD" if self.chance(0.01) else "GET"
        return Request(verb, label, method, f"{path}?{query}" if query else path, self.headers(), user=self.user())

    # -- verbs

    def make_create(self):
        kind, namespace = self.kind("create"), self.namespace()
        name = self.name(kind)
        return self.sent(
            "create", kind, "POST", kind.collection(namespace), WRITE_OPTIONS, self.obj(kind, name, namespace)
        )

    def make_update(self):
        kind, namespace = self.kind("update"), self.namespace()
        path = kind.path(namespace, name := self.name(kind))
        tree = self.obj(kind, name, namespace)
        if isinstance(tree, dict) and isinstance(tree.get("metadata"), dict) and self.chance(0.8):
            tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": f"@rv({path})"}}
        return self.sent("update", kind, "PUT", path, WRITE_OPTIONS, tree)

    def make_patch(self):
        kind, namespace = self.kind("patch"), self.namespace()
        return self.patch(kind, kind.path(namespace, name := self.name(kind)), self.obj(kind, name, namespace))

    def patch(self, kind, path, tree):
        content_type = self.rng.choice((MERGE, STRATEGIC, JSON_PATCH))
        if content_type == JSON_PATCH:
            tree = self.operations(tree)
        elif isinstance(tree, dict) and tree and self.chance(0.7):
            kept = self.rng.choice(sorted(tree))
            tree = {kept: tree[kept]}
        return self.sent(
            f"patch {content_type.split('/')[1].split('-')[0]}", kind, "PATCH", path, WRITE_OPTIONS, tree, content_type
        )

    def operations(self, tree):
        known = list(pointers(tree)) if isinstance(tree, dict | list) else [""]
        made = (
            [{"op": "add", "path": "/metadata/labels", "value": {"a": self.rng.choice("bcd")}}]
            if self.chance(0.6)
            else []
        )
        for _ in range(self.rng.choice((0, 1, 3)) if made else 2):
            op = self.rng.choice(("add", "add", "replace", "remove", "test", "copy", "move", "x"))
            path = self.rng.choice([*known, "/metadata/labels", "/metadata/labels/a", "/spec/x", "/-", "x", "/a~2"])
            one = {"op": op, "path": path}
            if op in ("add", "replace", "test"):
                one["value"] = self.rng.choice(({"a": "b"}, scalar(self.rng), anything(self.rng)))
            if op in ("copy", "move"):
                one["from"] = self.rng.choice(known)
            made.append(one)
        return {"@repeat": self.rng.choice((1000, 11_000)), "of": made[0]} if self.chance(0.01) else made

    def make_apply(self):
        kind, namespace = self.kind("patch"), self.namespace()
        path = kind.path(namespace, name := self.name(kind))
        tree = self.obj(kind, name, namespace)
        request = self.sent(
            "apply", kind, "PATCH", path, {**WRITE_OPTIONS, "force": ("true", "true", "false", "x")}, tree, APPLY
        )
        if self.chance(0.9) and "fieldManager" not in request.target:
            target = f"{request.target}{'&' if '?' in request.target else '?'}fieldManager={self.rng.choice('ab')}"
            return Request(**{**request.__dict__, "target": target})
        return request

    def delete_options(self, path):
        if self.chance(0.6):
            return None
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if self.chance(0.4):
            options["preconditions"] = {
                self.rng.choice(("uid", "resourceVersion")): f"@{self.rng.choice(('uid', 'rv'))}({path})"
            }
        if self.chance(0.3):
            options["propagationPolicy"] = self.rng.choice(DELETE_OPTIONS["propagationPolicy"])
        if self.chance(0.3):
            options["gracePeriodSeconds"] = self.rng.choice((0, 1, -1, "x"))
        return self.hostile(options)

    def make_delete(self):
        kind, namespace = self.kind("delete"), self.namespace()
        return self.deletion("delete", kind, kind.path(namespace, self.name(kind)), DELETE_OPTIONS)

    def deletion(self, verb, kind, path, options):
        tree = self.delete_options(path)
        if tree is None:
            query = self.query(options)
            return Request(
                verb, kind.label, "DELETE", f"{path}?{query}" if query else path, self.headers(), user=self.user()
            )
        return self.sent(verb, kind, "DELETE", path, options, tree, JSON)

    def make_deletecollection(self):
        kind = self.kind("deletecollection")
        request = self.deletion(
            "deletecollection", kind, kind.collection(self.namespace()), {**DELETE_OPTIONS, **LIST_OPTIONS}
        )
        if kind.plural not in SERVER_OBJECTS:
            return request
        return Request(
            **{**request.__dict__, "target": f"{kind.everywhere}?fieldSelector=metadata.name={kind.names[0]}"}
        )

    def make_get(self):
        kind = self.kind("get")
        path = kind.path(self.namespace(), self.name(kind))
        return self.asked(
            "get",
            kind.label,
            path,
            self.query({"resourceVersion": LIST_OPTIONS["resourceVersion"], "pretty": ("true",)}),
        )

    def list_path(self, kind):
        return kind.everywhere if self.chance(0.4) else kind.collection(self.namespace())

    def make_list(self):
        kind = self.kind("list")
        path, query = self.list_path(kind), self.query(LIST_OPTIONS, 0.15)
        if self.chance(0.2):
            query = f"limit={self.rng.choice('123')}&continue=@continue({path})"
        if self.chance(0.1):
            field = self.rng.choice(kind.selectable)
            query = f"fieldSelector={quote(field)}{self.rng.choice(('=', '!=', '%3D%3D'))}{self.rng.choice(('fuzz-0', '', 'x'))}"
        return self.asked("list", kind.label, path, query)

    def make_watch(self):
        kind = self.kind("watch")
        query = self.query(WATCH_OPTIONS, 0.15)
        if self.chance(0.3):
            query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        return self.asked("watch", kind.label, self.list_path(kind), f"watch=true&{query}")

    def make_subresource(self):
        having = [kind for kind in self.kinds if kind.subresources]
        if not having:
            return self.make_update()
        kind, namespace = self.rng.choice(having), self.namespace()
        sub = self.rng.choice(sorted(kind.subresources))
        name, group, version, verbs = kind.subresources[sub]
        path = f"{kind.path(namespace, object_name := self.name(kind))}/{sub}"
        verb = self.rng.choice(verbs) if self.chance(0.95) else "create"
        if verb == "get":
            return self.asked(f"get {sub}", kind.label, path)
        tree = self.sub_object(kind, sub, name, f"{group}/{version}" if group else version, object_name, namespace)
        if verb == "patch":
            request = self.patch(kind, path, tree)
            return Request(**{**request.__dict__, "verb": f"patch {sub}"})
        method = {"create": "POST", "update": "PUT", "delete": "DELETE"}[verb]
        return self.sent(f"{verb} {sub}", kind, method, path, WRITE_OPTIONS, tree)

    def sub_object(self, kind, sub, sub_kind, api_version, name, namespace):
        if sub_kind == kind.kind:
            tree = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **kind.valid}
            if kind.schema is not None and sub in kind.schema.properties:
                tree[sub] = made_up(self.rng, kind.schema.properties[sub])
            if self.chance(0.3):
                tree["metadata"]["resourceVersion"] = f"@rv({kind.path(namespace, name)})"
            return self.hostile(tree)
        fields = {
            "scale": {"spec": {"replicas": self.rng.choice((0, 1, 3, -1))}},
            "binding": {"target": {"kind": "Node", "name": "n"}},
            "eviction": {},
            "token": {"spec": {"audiences": ["a"], "expirationSeconds": 600}},
        }
        return self.hostile(
            {"apiVersion": api_version, "kind": sub_kind, "metadata": {"name": name}, **fields.get(sub, {})}
        )

    def make_review(self):
        kind = self.rng.choice(REVIEWS)
        spec = made_up(self.rng, kind.schema.properties["spec"], 1) if "spec" in kind.schema.properties else {}
        tree = self.hostile({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec})
        return self.sent("review", kind, "POST", kind.collection(self.namespace()), WRITE_OPTIONS, tree)

    def make_definition(self):
        kind = next(one for one in BUILTIN if one.plural == "customresourcedefinitions")
        name = self.rng.choice(kind.names)
        tree = self.hostile(random_definition(self.rng, name))
        if self.chance(0.5):
            return self.sent("create", kind, "POST", kind.everywhere, WRITE_OPTIONS, tree, JSON)
        if isinstance(tree, dict) and isinstance(tree.get("metadata"), dict):
            tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": f"@rv({kind.everywhere}/{name})"}}
        return self.sent("update", kind, "PUT", f"{kind.everywhere}/{name}", WRITE_OPTIONS, tree, JSON)

    def make_page(self):
        return self.asked("page", "pages", self.rng.choice(PAGES))

    def make_path(self):
        parts = (
            "api",
            "apis",
            "v1",
            "namespaces",
            "default",
            "pods",
            "fuzz-0",
            "status",
            "..",
            "%2e%2e",
            "",
            "%00",
            "watch",
            "proxy",
            "apps",
            "é",
        )
        path = "/" + "/".join(self.rng.choice(parts) for _ in range(self.rng.randrange(1, 9)))
        method = self.rng.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "BREW"))
        return Request("path", "paths", method, quote(path, safe="/%"), self.headers(), user=self.user())

    def make_raw(self):
        return Request("raw", "HTTP", raw=broken(self.rng))
