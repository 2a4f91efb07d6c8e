"""What counts as a failure, and by what two failures are the same."""

import json
import re
from typing import NamedTuple

import yaml

KNOWN = [
    (500, r"^resourceVersion should not be set on objects to be created$"),
    (500, r"^resourceVersion: Invalid value: .*: strconv\.ParseUint: parsing .*: invalid syntax$"),
    (500, r"^strconv\.ParseUint: parsing .*: invalid syntax$"),
    (500, r"^map: map\[.*\] does not contain declared merge key: .*$"),
    (500, r"^unknown patch type: .* in map: .*$"),
    (500, r"^list element types are not identical: "),
    (500, r"^expected a .*, but received a .*$"),
    (500, r"failed to create RequestInfo"),
    (500, r"^failed to create (typed (patch|live) object \(|manager for existing fields: )"),
    (500, r"^\[?target\.(name|kind): "),
    (500, r"failed to allocate a serviceIP"),
    (500, r"the spec replicas field \".*\" does not exist$"),
    (501, r"is not supported"),
    (504, r"^Timeout: Too large resource version: .*$"),
]
"""Answers of 5xx that kube-apiserver gives too although the client is to blame."""


class Finding(NamedTuple):
    """One failure. Two with the same category and signature are the same failure."""

    category: str
    signature: str
    detail: str
    numbers: tuple
    """The numbers of the requests that were in flight."""

    def __str__(self):
        return f"{self.category}: {self.signature}"

    def is_same(self, other):
        return (self.category, self.signature) == (other.category, other.signature)


def is_known_server_error(status, body):
    """Return True for an answer of 5xx that is kube-apiserver's too."""
    return any(status == code and re.search(pattern, _message(body), re.DOTALL) for code, pattern in KNOWN)


def _message(body):
    try:
        return str((json.loads if body[:1] == b"{" else yaml.safe_load)(body)["message"])
    except (ValueError, yaml.YAMLError, TypeError, KeyError):
        return body.decode(errors="replace")


def server_error(number, request, answer):
    """The finding of an answer that blames the server, or None."""
    # The answer to a HEAD has no message; if it was a failure of the server, the log has a traceback.
    if answer.status < 500 or request.method == "HEAD" or is_known_server_error(answer.status, answer.body):
        return None
    # The next comparison asks again, and for the reason.
    if request.path == "/readyz":
        return None
    message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", _message(answer.body))
    return Finding(
        "server error", f"{answer.status} {_general(message)}", f"{request}\n{answer.body[:2000]!r}", (number,)
    )


def not_ready(answer, log=""):
    """The finding of a server that says it is not ready."""
    failing = re.findall(r"^\[-\](\S+)", answer.body.decode(errors="replace"), re.MULTILINE)
    return Finding("not ready", " ".join(failing), log, ())


def malformed_error(number, request, answer):
    """The finding of an error that is no Status, or None. Pages and raw requests may be answered in plain text."""
    if answer.status < 400 or request.kind in ("pages", "paths", "HTTP") or request.method == "HEAD":
        return None
    status = answer.json
    if status is None or (status.get("kind") == "Status" and status.get("code") == answer.status):
        return None
    return Finding(
        "malformed error", f"{answer.status} {request.verb}", f"{request}\n{answer.body[:2000]!r}", (number,)
    )


def traceback(number, text):
    """The finding of a traceback in the log."""
    lines = text.rstrip().splitlines()
    frames = [line.strip() for line in lines if line.startswith("  File ")]
    where = re.sub(r"line \d+, ", "", frames[-1].rpartition("/")[2]) if frames else ""
    error = next((line for line in reversed(lines) if line and not line.startswith(" ")), "")
    return Finding("traceback", f"{error.partition(':')[0]} {where}", text[-4000:], (number,))


def _general(message):
    """A message without what differs from object to object."""
    return re.sub(r'"[^"]*"|\d+', "_", message)[:120]
