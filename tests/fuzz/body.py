"""How a value becomes the bytes of a request body: JSON, YAML, protobuf, and damaged forms of them.

Markers in a value are expanded here: `@text(N)` is a string of N letters, `@deep-list(N)` and `@deep-map(N)` are N levels,
`{"@repeat": N, "of": item}` is a list and `{"@entries": N, "of": value}` a map of N entries.
"""

import gzip
import json
import re

import yaml

from kapi.codec.protobuf import MAGIC

YAML_BYTES = 200_000
_TEXT = re.compile(r"^@text\((\d+)\)$")
_DEEP = re.compile(rb'"@deep-(list|map)\((\d+)\)"')


def expand(tree):
    """The value with its markers replaced, except those of depth, which only text can hold."""
    match tree:
        case str() if found := _TEXT.match(tree):
            return "x" * int(found[1])
        case {"@repeat": int(count), "of": item}:
            return [numbered(expand(item), number) if tree.get("numbered") else expand(item) for number in range(count)]
        case {"@entries": int(count), "of": value}:
            return {f"k{number}": value for number in range(count)}
        case dict():
            return {expand(key): expand(value) for key, value in tree.items()}
        case list():
            return [expand(item) for item in tree]
        case _:
            return tree


def numbered(item, number):
    """The item with its first string made different from that of the other items."""
    if isinstance(item, str):
        return f"{item[:200]}-{number}"
    if isinstance(item, dict):
        for key, value in item.items():
            if isinstance(value, str):
                return {**item, key: f"{value[:200]}-{number}"}
    return item


def _deep(found):
    count = int(found[2])
    opening, closing = (b"[", b"]") if found[1] == b"list" else (b'{"a":', b"}")
    return opening * count + (b"" if found[1] == b"list" else b"1") + closing * count


def _json(tree, **options):
    return _DEEP.sub(_deep, json.dumps(expand(tree), **options).encode("utf-8", "surrogatepass"))


def _with_member(text, member):
    """The object with another member in front."""
    return re.sub(rb"^\{", lambda _: b"{" + member + (b"" if text[:2] == b"{}" else b","), text, count=1)


def _yaml(tree):
    """YAML in its own style if it is small; else JSON, which is YAML too and does not take minutes to write."""
    text = _json(tree)
    if len(text) > YAML_BYTES:
        return text
    plain = yaml.dump(expand(tree), Dumper=yaml.CSafeDumper, allow_unicode=True)
    return _DEEP.sub(_deep, plain.encode("utf-8", "replace"))


def _field(number, content):
    size, length = b"", len(content)
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


def protobuf_config_map(tree):
    """A ConfigMap in protobuf: the name and the texts of `data` of a value, if it has such."""
    tree = tree if isinstance(tree, dict) else {}
    metadata, data = tree.get("metadata"), tree.get("data")
    name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    entries = data.items() if isinstance(data, dict) else ()
    raw = _field(1, _field(1, _utf8(name)))
    raw += b"".join(_field(2, _field(1, _utf8(key)) + _field(2, _utf8(expand(value)))) for key, value in entries)
    types = _field(1, _field(1, b"v1") + _field(2, b"ConfigMap"))
    return MAGIC + types + _field(2, raw)


def _utf8(value):
    return str(value).encode("utf-8", "replace")


_ALIASES = b"a: &a [x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 112)
)

FORMS = {
    "json": lambda tree: _json(tree, ensure_ascii=False),
    "ascii": lambda tree: _json(tree, indent=1),
    "yaml": _yaml,
    "gzip": lambda tree: gzip.compress(_json(tree), mtime=0),
    "empty": lambda tree: b"",
    "null": lambda tree: b"null",
    "spaces": lambda tree: b" " * 10_000 + _json(tree),
    "nan": lambda tree: _with_member(_json(tree), b'"n":NaN'),
    "infinity": lambda tree: _with_member(_json(tree), b'"n":-Infinity'),
    "exponent": lambda tree: _with_member(_json(tree), b'"n":1e999'),
    "digits": lambda tree: _with_member(_json(tree), b'"n":' + b"9" * 5000),
    "duplicate": lambda tree: _with_member(_json(tree), b'"metadata":{"name":"twice"},"kind":"Twice"'),
    "surrogate": lambda tree: _with_member(_json(tree), b'"s":"\\ud800"'),
    "not-utf8": lambda tree: _with_member(_json(tree), b'"s":"\xff\xfe"'),
    "bom": lambda tree: b"\xef\xbb\xbf" + _json(tree),
    "truncated": lambda tree: _json(tree)[: max(1, len(_json(tree)) * 7 // 10)],
    "trailing": lambda tree: _json(tree) + b" {}",
    "aliases": lambda tree: _ALIASES,
    "documents": lambda tree: b"---\n" + _yaml(tree) + b"---\n" + _yaml(tree),
    "tag": lambda tree: b"!!python/object/apply:os.getpid []\n",
    "protobuf-magic": lambda tree: MAGIC,
    "protobuf-of-json": lambda tree: MAGIC + _json(tree),
    "protobuf": protobuf_config_map,
}
DAMAGED = tuple(name for name in FORMS if name not in ("json", "ascii", "yaml", "protobuf"))


def encode(tree, form):
    """The bytes of a value in a form."""
    return FORMS[form](tree)
