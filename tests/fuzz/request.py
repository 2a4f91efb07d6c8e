"""One request, and its form in a reproducer.

What depends on earlier answers is written as a reference: `@rv(PATH)`, `@uid(PATH)` and `@continue(PATH)` stand for what the last
answer about that path said. So a sequence of requests means the same on another server.
"""

import base64
import json
import re
from dataclasses import asdict, dataclass, replace

from .body import encode

_REFERENCE = re.compile(rb"@(rv|uid|continue)\(([^)]*)\)")


@dataclass(frozen=True)
class Request:
    """A request; `raw` are bytes to send as they are, instead of all the rest."""

    verb: str
    """What it is meant to be, for the report: create, apply, watch, …"""
    kind: str
    """The resource it is about, for the report."""
    method: str = "GET"
    target: str = "/"
    headers: tuple = ()
    tree: object = None
    form: str = ""
    """The form of the body (`body.FORMS`); empty for no body."""
    user: str = "admin"
    """admin, anonymous or invalid."""
    raw: bytes = b""

    @property
    def is_watch(self):
        return self.verb == "watch"

    @property
    def path(self):
        return self.target.partition("?")[0]

    def head(self, seen):
        """Target and headers with references resolved; `seen(what, path)` is what answers said."""
        return _resolve(self.target.encode("utf-8", "replace"), seen), [
            (name, _resolve(value.encode("utf-8", "replace"), seen)) for name, value in self.headers
        ]

    def content(self, seen):
        """The body, or None."""
        return _resolve(encode(self.tree, self.form), seen) if self.form else None

    def to_json(self):
        """What a reproducer has of it: no field that has its default."""
        fields = {name: value for name, value in asdict(self).items() if value != _DEFAULTS.get(name)}
        if self.raw:
            fields["raw"] = base64.b64encode(self.raw).decode()
        return fields

    @classmethod
    def from_json(cls, fields):
        fields = {**fields, "headers": tuple(tuple(pair) for pair in fields.get("headers", ()))}
        return cls(**{**fields, "raw": base64.b64decode(fields.get("raw", ""))})

    def __str__(self):
        if self.raw:
            return f"raw {self.raw[:200]!r}"
        body = json.dumps(self.tree)
        shown = body if len(body) < 2000 else f"{body[:2000]}… ({len(body)} characters)"
        return f"{self.method} {self.target[:500]} {dict(self.headers)} {self.form and f'{self.form}: {shown}'}"


_DEFAULTS = {
    name: getattr(Request("", ""), name) for name in ("method", "target", "headers", "tree", "form", "user", "raw")
}


def _resolve(text, seen):
    if b"@" not in text:
        return text
    return _REFERENCE.sub(lambda found: seen(found[1].decode(), found[2].decode("utf-8", "replace")).encode(), text)


def changed(request, **fields):
    """A copy with other fields."""
    return replace(request, **fields)
