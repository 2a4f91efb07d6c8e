"""JSON values: made from the schemas of the built-in kinds, and changed in ways that a server must survive.

Large values are written as short markers (`@text(100000)`), which `body.py` expands when the request is sent: a reproducer
stays small enough to read.
"""

from kapi.schema.builtin.definitions import definition

WORDS = ("", "a", "b.example.com", "True", "False", "Ready", "10.0.0.1", "1Gi", "5", "default", "it", "Bound", "é")
SCALARS = {
    "Time": lambda rng: rng.choice(["2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z"]),
    "MicroTime": lambda rng: "2026-01-01T00:00:00.000000Z",
    "Quantity": lambda rng: rng.choice(["0", "1", "100m", "5Gi"]),
    "IntOrString": lambda rng: rng.choice([0, 1, "50%", "name"]),
    "FieldsV1": lambda rng: {},
    "RawExtension": lambda rng: {"kind": "A", "apiVersion": "v1"},
}


def made_up(rng, node, depth=0):
    """A value of the type a schema specifies; fields are left out, null or empty at random."""
    if rng.random() < 0.05:
        return None
    if node.ref:
        short = node.ref.rpartition(".")[2]
        if short in SCALARS:
            return SCALARS[short](rng)
        return made_up(rng, definition(node.ref), depth)
    if node.properties:
        share = 0.6 if depth < 4 else 0.1
        return {name: made_up(rng, field, depth + 1) for name, field in node.properties.items() if rng.random() < share}
    if node.items is not None:
        return [made_up(rng, node.items, depth + 1) for _ in range(rng.randrange(3))]
    if node.values is not None:
        return {rng.choice(WORDS[1:]): made_up(rng, node.values, depth + 1) for _ in range(rng.randrange(3))}
    return made_up_scalar(rng, node)


def made_up_scalar(rng, node):
    match node.type:
        case "integer" | "number":
            return rng.choice([0, 0, 1, 2, 100, -1, 2**31 - 1])
        case "boolean":
            return rng.random() < 0.5
        case "object":
            return {}
        case _:
            return rng.choice([*node.enum, *WORDS])


# -- hostile values

TEXTS = (
    "", " ", "\u0000", "\n", "é", "\u202e", "😀" * 3, "../..", "%00", "-", "--", ".", "..", "A", "a" * 64, "a" * 254, "kubernetes.io/",
    "/", "a/b/c", "null", "true", "0", "-1", "1e400", "0x10", "1Ki", "1.5.5", "999999999999999999999999E18", "10.0.0.256", "::",
    "::ffff:10.0.0.1", "10.0.0.0/33", "2026-13-01T00:00:00Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "* * * * *",
    "@every 1s", "TZ=x * * * * *", "100%", "-5%", "$(x)", "{{.}}", "^(a+)+$", "\\", '"', "http://[::1", "https://example.com:99999/",
    "@text(1000)", "@text(300000)",
)  # fmt: skip
NUMBERS = (
    0, -0.0, -1, 1, 0.5, 1e-320, 1e308, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30,
)  # fmt: skip
FIELDS = (
    "metadata", "spec", "status", "data", "kind", "apiVersion", "name", "namespace", "labels", "annotations", "finalizers",
    "ownerReferences", "uid", "resourceVersion", "generation", "deletionTimestamp", "creationTimestamp", "generateName",
    "managedFields", "selfLink", "deletionGracePeriodSeconds", "template", "selector", "matchLabels", "matchExpressions",
    "containers", "replicas", "ports", "port", "type", "rules", "subjects", "roleRef", "target", "$patch", "$retainKeys",
    "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "op", "path", "value", "from", "preconditions", "spec.x",
    "immutable", "stringData", "unknownField", "", "\u0000", "a b", "é", "__proto__", "__class__", "@text(300)",
)  # fmt: skip
LARGE = ("@deep-list(60)", "@deep-list(300)", "@deep-map(90)", "@deep-map(300)", "@deep-list(5000)", "@deep-map(40000)")


def scalar(rng):
    """Any scalar."""
    match rng.randrange(5):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2:
            return rng.choice(NUMBERS)
        case _:
            return rng.choice(TEXTS)


def anything(rng, depth=0):
    """A small tree of anything."""
    pick = rng.random()
    if depth > 3 or pick < 0.5:
        return scalar(rng)
    if pick < 0.55:
        return rng.choice(LARGE)
    if pick < 0.75:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(FIELDS): anything(rng, depth + 1) for _ in range(rng.randrange(4))}


def mutated(rng, tree, depth=0):
    """A copy in which something, somewhere, has another type, is missing, null, unknown, or far too large."""
    if isinstance(tree, dict) and tree and (depth == 0 or rng.random() < 0.75):
        key = rng.choice(sorted(tree))
        match rng.randrange(8):
            case 0:
                return {name: value for name, value in tree.items() if name != key}
            case 1:
                return {**tree, rng.choice(FIELDS): anything(rng)}
            case 2:
                return {**tree, key: None}
            case _:
                return {**tree, key: mutated(rng, tree[key], depth + 1)}
    if isinstance(tree, list) and tree and rng.random() < 0.75:
        at = rng.randrange(len(tree))
        match rng.randrange(5):
            case 0:
                return tree * rng.choice((2, 3))
            case 1:
                return large_list(rng, tree[at])
            case _:
                return [*tree[:at], mutated(rng, tree[at], depth + 1), *tree[at + 1 :]]
    return anything(rng)


def large_list(rng, item):
    """A list of very many items, equal or different; some do not fit into a request."""
    return {"@repeat": rng.choice((100, 1000, 5000, 20000)), "of": item, "numbered": rng.random() < 0.5}


def large_map(rng):
    """A map of very many entries."""
    return {"@entries": rng.choice((100, 1000, 10000, 60000)), "of": rng.choice(("", "v", 1, None))}


def inflated(rng, tree):
    """A copy in which one list or map, anywhere, has very many entries."""
    places = list(_containers(tree))
    if not places:
        return tree
    path = rng.choice(places)
    return _replaced(tree, path, lambda old: _large(rng, old))


def _large(rng, old):
    if isinstance(old, list):
        return large_list(rng, rng.choice(old) if old else scalar(rng))
    return large_map(rng)


def _containers(tree, path=()):
    if isinstance(tree, dict | list) and path:
        yield path
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield from _containers(value, (*path, key))


def _replaced(tree, path, change):
    if not path:
        return change(tree)
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = _replaced(tree[path[0]], path[1:], change)
    return copy


def pointers(tree, path=""):
    """The JSON pointers into a tree."""
    yield path
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield from pointers(value, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
