"""From a failure to a reproducer: the shortest sequence, then the smallest requests, that still fail in the same way.

Every trial is a sequence sent to a server. First come guesses: the request that failed, all before it that were about the same
object, about the same kind, and then the last 4, 16, 64 … requests. Of the guess that fails requests are dropped (delta debugging),
then headers, query parameters and parts of bodies.
"""

import json
import time

from .request import Request, changed

VERSION = 1


def guesses(request_of, numbers, last):
    """Sequences that may fail: `request_of(number)` are the requests up to `last`, `numbers` those that were in flight."""
    suspects = [request_of(number) for number in numbers]
    yield suspects
    history = [request_of(number) for number in range(last + 1)]
    objects = {_object(request) for request in suspects} - {""}
    yield [request for request in history if _object(request) in objects]
    kinds = {request.kind.partition(".")[0] for request in suspects}
    yield [request for request in history if request.kind.partition(".")[0] in kinds]
    length = 4
    while length < len(history) * 4:
        yield history[-length:]
        length *= 4


def _object(request):
    """Plural, namespace and name, in whichever version; a creation is about the name in its body."""
    parts = request.path.removeprefix("/apis/").removeprefix("/api/").split("/")
    parts = parts[parts.index("namespaces") + 1 :] if "namespaces" in parts[:-2] else parts[-2:]
    if request.method == "POST":
        metadata = request.tree.get("metadata") if isinstance(request.tree, dict) else None
        parts.append(str(metadata.get("name")) if isinstance(metadata, dict) else "")
    return "/".join(parts[:3])


class Minimiser:
    """`fails(requests)` is a coroutine that returns True if the sequence fails as the original did.

    `seconds` are for finding the shortest sequence, `shrink_seconds` for making its requests smaller.
    """

    def __init__(self, fails, seconds=120, shrink_seconds=60):
        self._fails = fails
        self._until = time.monotonic() + seconds
        self._shrink_seconds = shrink_seconds

    @property
    def has_time(self):
        return time.monotonic() < self._until

    async def minimise(self, guesses):
        """The smallest failing sequence that was found in time; None if no guess failed."""
        for failing in guesses:
            if failing and await self._fails(failing):
                return await self._shrink_all(await self._drop(failing))
            if not self.has_time:
                break
        return None

    async def _drop(self, failing):
        """Drop requests, in halves, quarters, … down to single ones."""
        size = max(1, len(failing) // 2)
        while self.has_time and len(failing) > 1:
            at, has_dropped = 0, False
            while at < len(failing) and self.has_time and len(failing) > 1:
                rest = failing[:at] + failing[at + size :]
                if rest and await self._fails(rest):
                    failing, has_dropped = rest, True
                else:
                    at += size
            if size == 1 and not has_dropped:
                break
            size = max(1, size // 2)
        return failing

    async def _shrink_all(self, failing):
        self._until = time.monotonic() + self._shrink_seconds
        for at in range(len(failing)):
            failing = await self._shrink(failing, at)
        return failing

    async def _shrink(self, failing, at):
        """Replace one request by a smaller one as long as that still fails."""
        has_shrunk = True
        while has_shrunk and self.has_time:
            has_shrunk = False
            for smaller in smaller_requests(failing[at]):
                if not self.has_time:
                    break
                wanted = [*failing[:at], smaller, *failing[at + 1 :]]
                if await self._fails(wanted):
                    failing, has_shrunk = wanted, True
                    break
        return failing


def smaller_requests(request):
    """Requests with one thing less, the largest steps first."""
    if request.raw:
        yield from (changed(request, raw=part) for part in smaller_bytes(request.raw))
        return
    path, _, query = request.target.partition("?")
    if query:
        yield changed(request, target=path)
        pairs = query.split("&")
        if len(pairs) > 1:
            yield from (
                changed(request, target=f"{path}?{'&'.join(pairs[:at] + pairs[at + 1 :])}") for at in range(len(pairs))
            )
    for at in range(len(request.headers)):
        yield changed(request, headers=request.headers[:at] + request.headers[at + 1 :])
    if request.form not in ("", "json"):
        yield changed(request, form="json")
    yield from (changed(request, tree=tree) for tree in smaller_trees(request.tree))


def smaller_trees(tree):
    """Trees with one part less or one part simpler, from the top down."""
    if isinstance(tree, dict) and ("@repeat" in tree or "@entries" in tree):
        yield from _smaller_counts(tree)
    elif isinstance(tree, dict):
        keys = list(tree)
        if len(keys) > 3:
            half = len(keys) // 2
            yield {key: tree[key] for key in keys[:half]}
            yield {key: tree[key] for key in keys[half:]}
        yield from ({other: tree[other] for other in keys if other != key} for key in keys)
        for key in keys:
            yield from ({**tree, key: part} for part in smaller_trees(tree[key]))
    elif isinstance(tree, list):
        if len(tree) > 3:
            yield tree[: len(tree) // 2]
            yield tree[len(tree) // 2 :]
        yield from (tree[:at] + tree[at + 1 :] for at in range(len(tree)))
        for at, item in enumerate(tree):
            yield from ([*tree[:at], part, *tree[at + 1 :]] for part in smaller_trees(item))
    elif isinstance(tree, str) and len(tree) > 1 and not tree.startswith("@"):
        yield tree[: len(tree) // 2]


def _smaller_counts(tree):
    name = "@repeat" if "@repeat" in tree else "@entries"
    if tree[name] > 1:
        yield {**tree, name: tree[name] // 2}
    yield from ({**tree, "of": item} for item in smaller_trees(tree["of"]))


def smaller_bytes(data):
    size = len(data) // 2
    while size:
        yield from (data[:at] + data[at + size :] for at in range(0, len(data), size))
        size //= 2


def save(path, finding, requests, seed, clients):
    """Write a reproducer."""
    content = {
        "version": VERSION,
        "failure": {"category": finding.category, "signature": finding.signature, "detail": finding.detail},
        "seed": seed,
        "clients": clients,
        "requests": [request.to_json() for request in requests],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path):
    """The requests of a reproducer, and how many clients sent them."""
    content = json.loads(path.read_text())
    return [Request.from_json(fields) for fields in content["requests"]], content["clients"]
