"""Every request gets an answer, and never a 5xx, except where kube-apiserver answers so too.

Requests are made up from parts that mean something, so that they get far. Each passes the whole pipeline. An answer of 5xx
is accepted only if it is one that kube-apiserver gives too although the client is to blame (`fuzz/findings.py`).
"""

import asyncio
import json
import os
from urllib.parse import quote

import pytest
from every_route import NAME, RESOURCES, collection, name_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from valid_objects import make_all, valid

from api_client import APPLY, JSON, JSON_PATCH, MERGE, PARTIAL, STRATEGIC, TABLE, Api
from fuzz.findings import is_known_server_error
from virtual_time import VirtualLoop

EXAMPLES = int(os.environ.get("KAPI_FUZZ_EXAMPLES", "600"))
"""The long form: KAPI_FUZZ_EXAMPLES=100000."""

WORDS = st.sampled_from(
    ["", NAME, "default", "missing", "a", "..", "%2e", "0", "-1", "1", "2", "999999", "99999999999999999999", "true", "false",
     "All", "Strict", "Warn", "Ignore", "Orphan", "Foreground", "Exact", "NotOlderThan", "x", "a=b", "a in (b)", "!a",
     "metadata.name=it", "spec.nodeName=n", "status.phase!=x", "e30", "\x00", "é", "1s", "-1s", "1h", "Object", "None"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "dryRun",
     "fieldManager", "fieldValidation", "force", "timeout", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents",
     "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "pretty", "includeObject", "x"]
)  # fmt: skip
QUERIES = st.lists(st.tuples(KEYS, WORDS), max_size=4).map(
    lambda pairs: "&".join(f"{key}={quote(value)}" for key, value in pairs)
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), WORDS, st.text(max_size=8)
)
FIELDS = st.sampled_from(
    ["metadata", "spec", "status", "data", "kind", "apiVersion", "name", "namespace", "labels", "annotations", "finalizers",
     "ownerReferences", "uid", "resourceVersion", "generation", "deletionTimestamp", "creationTimestamp", "generateName",
     "template", "selector", "matchLabels", "containers", "replicas", "ports", "port", "type", "rules", "subjects", "roleRef",
     "target", "$patch", "$retainKeys", "op", "path", "value", "from", "preconditions", "spec.x", "immutable", "stringData"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=5), max_leaves=12
)
POINTERS = st.lists(st.one_of(FIELDS, st.sampled_from(["0", "-", "~0", "~1", ""])), max_size=4).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "?"]), "path": POINTERS},
        optional={"value": TREES, "from": POINTERS},
    ),
    max_size=4,
)


def bend(draw, tree, depth=0):
    """A copy of a tree in which something, somewhere, is something else, gone, or more."""
    if depth > 6 or draw(st.integers(0, 3)) == 0:
        return draw(TREES)
    if isinstance(tree, dict) and tree:
        key = draw(st.sampled_from(sorted(tree)))
        changed = {**tree, key: bend(draw, tree[key], depth + 1)}
        return draw(
            st.sampled_from(
                [changed, {**changed, draw(FIELDS): draw(TREES)}, {k: v for k, v in tree.items() if k != key}]
            )
        )
    if isinstance(tree, list) and tree:
        return [bend(draw, tree[0], depth + 1), *tree[1:]] * draw(st.integers(1, 2))
    return draw(TREES)


@st.composite
def objects(draw, resource):
    """A valid object of a resource, bent; or something like an object with whatever in it."""
    named = {"name": name_of(resource)}
    if draw(st.booleans()):
        obj = (
            bend(draw, valid(resource))
            if resource.store is not None
            else draw(st.dictionaries(FIELDS, TREES, max_size=5))
        )
    else:
        obj = draw(st.dictionaries(FIELDS, TREES, max_size=5))
    if isinstance(obj, dict) and draw(st.integers(0, 3)):
        obj["metadata"] = {**draw(st.dictionaries(FIELDS, TREES, max_size=2)), **named}
    return obj


@st.composite
def requests(draw):
    """Method, target, headers and body."""
    resource = draw(st.sampled_from(RESOURCES))
    base = collection(resource, draw(st.sampled_from(["default", "default", "missing", "kube-system"])))
    path = draw(st.sampled_from([base, f"{base}/{name_of(resource)}", f"{base}/{draw(WORDS).replace(chr(0), '%00')}"]))
    if resource.subresources and draw(st.booleans()):
        path = f"{base}/{name_of(resource)}/{draw(st.sampled_from(sorted(resource.subresources)))}"
    method = draw(
        st.sampled_from(["GET", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "HEAD", "BREW"])
    )
    kinds = (
        [MERGE, STRATEGIC, JSON_PATCH, APPLY]
        if method == "PATCH"
        else [JSON, JSON, JSON, "application/yaml", "text/x", ""]
    )
    kind = draw(st.sampled_from(kinds))
    body = draw(OPERATIONS if kind == JSON_PATCH else st.one_of(objects(resource), objects(resource), TREES))
    headers = {"content-type": kind} if kind else {}
    if draw(st.booleans()):
        headers["accept"] = draw(st.sampled_from([TABLE, PARTIAL, "application/yaml", "*/*", "text/x", ",;q=", ""]))
    raw = draw(st.one_of(st.just(None), st.none(), st.binary(max_size=20)))
    data = json.dumps(body).encode() if raw is None else raw
    return method, f"{path}?{draw(QUERIES)}", headers, data


@pytest.fixture(scope="module")
def served_loop():
    """One server for all examples: what one leaves behind, the next may trip over."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        api = Api()

        async def start():
            await api.start()
            await make_all(api)

        runner.run(start())
        yield runner, api
        runner.run(api.stop())


async def ask(api, method, target, headers, body):
    """The answer; of a watch only the beginning."""
    async with asyncio.timeout(3600):
        reply = await api.transport.request(method, target, headers, body)
        if dict(reply.headers).get("Content-Type") == "application/json" and "watch=" in target and reply.status == 200:
            await reply.aclose()
            return 200, b""
        return reply.status, await reply.read()


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(request=requests())
def test_random_requests_are_never_server_errors(served_loop, request):
    runner, api = served_loop
    status, body = runner.run(ask(api, *request))
    # The answer to a HEAD has no message to know an error by; a GET of the same gets the same.
    is_allowed = request[0] == "HEAD" or is_known_server_error(status, body)
    assert 200 <= status < 500 or is_allowed, (request, status, body[:2000])
    assert api.health.ready


@settings(max_examples=300)
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "\x00", "é", ""]),
    path=st.text(st.characters(codec="ascii"), max_size=60).map(lambda text: "/" + text.replace("?", "")),
    query=st.text(st.characters(codec="ascii"), max_size=60),
    headers=st.dictionaries(
        st.sampled_from(["accept", "content-type", "authorization", "user-agent", "x"]),
        st.text(max_size=30),
        max_size=3,
    ),
    body=st.binary(max_size=40),
)
def test_random_bytes_are_never_server_errors(served_loop, method, path, query, headers, body):
    runner, api = served_loop
    status, answer = runner.run(ask(api, method, f"{path}?{query}", headers, body))
    assert 200 <= status < 500 or is_known_server_error(status, answer), (status, answer[:2000])
