"""Random definitions of custom kinds: structural schemas with defaults, patterns and rules, right and wrong."""

from custom_kinds import definition, version

from .kinds import RANDOM_GROUP

RULES = (
    "true", "self.a == self.a", "has(self.a)", "size(self.l) < 5", "self.l.all(x, x != '')", "self.l.exists(x, self.l.exists(y, x == y))",
    "self.s.matches('^a')", "self.m.all(k, self.m[k] > 0)", "oldSelf.a <= self.a", "1 + 1", "self.nope", "((((", "quantity(self.s).isGreaterThan(quantity('1'))",
    "self.s.split(',').map(x, int(x)).sum() > 3", "duration(self.s) > duration('1s')", "url(self.s).getHost() == ''", "self.d.getFullYear() > 2000",
    "self.l.map(x, self.l.map(y, self.l.map(z, x + y + z))).size() > 0", "cel.bind(v, self.a, v > 1)", "optional.none().hasValue()", "self == oldSelf",
)  # fmt: skip
LEAVES = (
    {"type": "string"}, {"type": "string", "maxLength": 10, "default": "x"}, {"type": "string", "pattern": "^(a+)+$"}, {"type": "string", "format": "date-time"},
    {"type": "string", "enum": ["a", "b"]}, {"type": "integer", "minimum": 0, "default": 1}, {"type": "integer", "format": "int32"}, {"type": "number"},
    {"type": "number", "multipleOf": 0.1}, {"type": "boolean"}, {"x-kubernetes-int-or-string": True}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}, {"type": "string", "nullable": True},
    {"type": "string", "pattern": "(?=x)"}, {"type": "nope"}, {"type": "string", "default": 5}, {"$ref": "#/x"}, {"x-kubernetes-preserve-unknown-fields": True},
    {"type": "string", "default": "@text(5000)"},
)  # fmt: skip
COLUMNS = (
    ".spec.a",
    ".spec.l[*]",
    ".metadata.name",
    ".spec.l[?(@.x=='y')]",
    "{.x}",
    ".",
    "",
    ".spec..a",
    ".spec['a']",
    ".spec.l[0:5:2]",
)


def schema(rng, depth=0):
    """A schema, mostly structural."""
    pick = rng.random()
    if depth > 3 or pick < 0.45:
        return dict(rng.choice(LEAVES))
    if pick < 0.6:
        made = {"type": "array", "items": schema(rng, depth + 1)}
        if rng.random() < 0.3:
            made["x-kubernetes-list-type"] = rng.choice(("set", "map", "atomic", "x"))
        if rng.random() < 0.3:
            made["maxItems"] = 5
        if rng.random() < 0.1:
            made["default"] = [None]
        return made
    if pick < 0.7:
        return {"type": "object", "additionalProperties": schema(rng, depth + 1)}
    return rule_added(rng, record_schema(rng, depth))


def record_schema(rng, depth):
    names = rng.sample(("a", "l", "s", "m", "d", "x"), rng.randrange(1, 4))
    made = {"type": "object", "properties": {name: schema(rng, depth + 1) for name in names}}
    if rng.random() < 0.2:
        made["required"] = [names[0]]
    if rng.random() < 0.1:
        made["default"] = {}
    if rng.random() < 0.1:
        made[rng.choice(("anyOf", "allOf", "oneOf"))] = [
            {"required": [names[0]]},
            {"properties": {names[0]: {"enum": ["a"]}}},
        ]
    return made


def rule_added(rng, made):
    if rng.random() < 0.4:
        made["x-kubernetes-validations"] = [{"rule": rng.choice(RULES)} for _ in range(rng.randrange(1, 3))]
    return made


def random_definition(rng, name):
    """A definition of that name."""
    plural = name.partition(".")[0]
    root = {"type": "object", "properties": {"spec": schema(rng), "status": schema(rng, 2)}}
    more = {}
    if rng.random() < 0.4:
        more["subresources"] = rng.choice(
            ({"status": {}}, {}, {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}})
        )
    if rng.random() < 0.3:
        more["additionalPrinterColumns"] = [
            {"name": "C", "type": rng.choice(("string", "integer", "date", "x")), "jsonPath": rng.choice(COLUMNS)}
            for _ in range(2)
        ]
    if rng.random() < 0.2:
        more["selectableFields"] = [{"jsonPath": rng.choice((".spec.a", ".spec.s", "x"))}]
    if rng.random() < 0.1:
        more["deprecated"] = True
    versions = [version("v1", storage=True, root=root, **more)]
    if rng.random() < 0.3:
        versions.append(version(rng.choice(("v2", "v1beta1", "v1")), root=root, served=rng.random() < 0.8))
    return definition(
        plural[:-1].upper(),
        versions,
        group=RANDOM_GROUP,
        plural=plural,
        scope=rng.choice(("Namespaced", "Namespaced", "Cluster")),
    )
