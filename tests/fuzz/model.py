"""Acknowledged writes, compared with what watches, lists and gets show.

One watch per stored resource runs from the start. An acknowledged write must be an event with the same revision and the same object;
an acknowledged deletion must end the object or mark it; a dry run must leave no trace; a list must be the sum of the events, and a
get the same as the list. After a restart the watches continue where they were, and all of it must hold again.
"""

import asyncio
import hashlib
import json
import re
import ssl
from typing import NamedTuple

from .connection import Connection
from .findings import Finding
from .kinds import BY_ROOT, STORED

PATIENCE = 15
"""Seconds in which what was acknowledged must have become visible."""
CHANGED = "a watch shows something else than was acknowledged"
"""A finding that no later event can mend, so that nothing is waited for."""
_PATH = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+)(?=/.))?/([^/]+)(?:/([^/]+))?(?:/([^/]+))?$")
_WATCHED = {kind.hub: kind for kind in reversed(STORED)}
"""The version in which each stored resource is watched."""


class Seen(NamedTuple):
    """An object at a revision."""

    revision: int
    digest: str
    uid: str
    is_deleting: bool


class Acknowledged(NamedTuple):
    """A write that was answered with success."""

    number: int
    hub: str
    key: tuple
    revision: int
    digest: str
    """Empty where the answer was in another version, or of another kind, than what is watched."""


class Deleted(NamedTuple):
    """A deletion that was answered with success."""

    number: int
    hub: str
    key: tuple
    uid: str


def digest(obj):
    """The same for equal objects."""
    return hashlib.blake2b(json.dumps(obj, sort_keys=True).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def seen_of(obj):
    metadata = obj["metadata"]
    return Seen(int(metadata["resourceVersion"]), digest(obj), metadata.get("uid", ""), "deletionTimestamp" in metadata)


def key_of(obj):
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def parse_path(path):
    """Kind, namespace, name and sub-resource of a path; None for what is no resource of ours."""
    found = _PATH.match(path)
    kind = BY_ROOT.get(f"{found[1]}/{found[3]}") if found else None
    return None if kind is None else (kind, found[2] or "", found[4], found[5])


class Follower:
    """What one watch has shown: the objects now, and every revision since the last comparison."""

    def __init__(self, server, kind):
        self.kind = kind
        self.state = {}
        self.before = {}
        """The state at the last comparison: a write that changes nothing is answered with it."""
        self.events = {}
        self.delivered = 0
        self.resyncs = 0
        self._last = ""
        self._server = server
        self._connection = Connection(server)

    async def list(self):
        """The objects a list shows, and its revision."""
        answer = await self._connection.get(self.kind.everywhere)
        assert answer.status == 200, (self.kind.everywhere, answer)
        body = answer.json
        types = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        objects = [{**types, **item} for item in body["items"] or ()]
        return {key_of(obj): seen_of(obj) for obj in objects}, body["metadata"]["resourceVersion"]

    async def start(self):
        """Take the state from a list; events follow from there."""
        self.state, self._last = await self.list()
        self.before = dict(self.state)

    async def run(self):
        """Follow the watch until cancelled, across ends of connections and of the server."""
        while True:
            watch = Connection(self._server)
            try:
                path = f"{self.kind.everywhere}?watch=true&allowWatchBookmarks=true&resourceVersion={self._last}"
                async for event in watch.watch(path):
                    await self._take(event)
            except (OSError, EOFError, ssl.SSLError, ValueError):
                await asyncio.sleep(0.05)
            finally:
                watch.close()

    async def _take(self, event):
        obj = event["object"]
        if event["type"] == "ERROR":
            if obj.get("code") == 410:
                self.resyncs += 1
                await self.start()
            else:
                await asyncio.sleep(0.05)
            return
        self._last = obj["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        self.delivered += 1
        seen, key = seen_of(obj), key_of(obj)
        self.events[seen.revision] = key, seen
        if event["type"] == "DELETED":
            self.state.pop(key, None)
        else:
            self.state[key] = seen

    def forget(self):
        """Begin a new period: what was compared is not needed any more."""
        self.events.clear()
        self.before = dict(self.state)

    def find(self, ack):
        """What was seen at the revision of an acknowledged write, or None."""
        if ack.revision in self.events:
            return self.events[ack.revision]
        for states in (self.state, self.before):
            if (seen := states.get(ack.key)) and seen.revision == ack.revision:
                return ack.key, seen
        return None

    def close(self):
        self._connection.close()


class Model:
    """Every follower, and the writes that were acknowledged since the last comparison."""

    def __init__(self, server, hubs=None):
        """`hubs` are the stored resources to compare; all by default."""
        self.followers = {hub: Follower(server, kind) for hub, kind in _WATCHED.items() if hubs is None or hub in hubs}
        self.acknowledged = []
        self.deleted = []
        self.dry_uids = set()
        self.compared = 0
        self._tasks = []

    async def start(self):
        """Begin to follow; what exists now is the first state."""
        await asyncio.gather(*(follower.start() for follower in self.followers.values()))
        self._tasks = [asyncio.ensure_future(follower.run()) for follower in self.followers.values()]

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for follower in self.followers.values():
            follower.close()

    # -- what answers said

    def take(self, number, request, answer):
        """Remember what an answer acknowledges."""
        place = parse_path(request.path)
        if place is None or answer.status not in (200, 201, 202) or request.method in ("GET", "HEAD"):
            return
        kind, _, _, _ = place
        obj = answer.json
        if not kind.stored or not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            return
        if "dryRun=" in request.target:
            # A TokenRequest has the uid of its service account.
            made = request.method == "POST" and "uid" in obj["metadata"] and obj.get("kind") != "TokenRequest"
            if made and "dryRun=All" in request.target:
                self.dry_uids.add(obj["metadata"]["uid"])
        elif request.method == "DELETE":
            self._take_deletion(number, kind, place, obj)
        else:
            self._take_write(number, kind, obj)

    def _take_write(self, number, kind, obj):
        metadata = obj["metadata"]
        if not str(metadata.get("resourceVersion", "")).isdigit() or "name" not in metadata:
            return
        # The last finalizer was removed: the write ended the object, and there is no such state to be seen.
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            return
        watched = self.followers[kind.hub].kind
        same = obj.get("kind") == watched.kind and obj.get("apiVersion") == watched.api_version
        revision = int(metadata["resourceVersion"])
        self.acknowledged.append(Acknowledged(number, kind.hub, key_of(obj), revision, digest(obj) if same else ""))

    def _take_deletion(self, number, kind, place, obj):
        if obj.get("kind") == "Status":
            if (uid := obj.get("details", {}).get("uid")) and place[2]:
                self.deleted.append(Deleted(number, kind.hub, (place[1], place[2]), uid))
            return
        items = obj["items"] or () if "items" in obj else [obj]
        for item in items:
            if isinstance(item, dict) and "uid" in item.get("metadata", {}):
                self.deleted.append(Deleted(number, kind.hub, key_of(item), item["metadata"]["uid"]))

    # -- comparison

    async def compare(self):
        """Findings, and begin a new period."""
        findings = await self._until_none(self._compare_writes)
        findings += await self._until_none(self._compare_lists)
        findings += self._compare_dry_runs()
        self.compared += len(self.acknowledged) + len(self.deleted)
        self.acknowledged.clear()
        self.deleted.clear()
        for follower in self.followers.values():
            follower.forget()
        return findings

    async def _until_none(self, check):
        loop = asyncio.get_running_loop()
        limit = loop.time() + PATIENCE
        while findings := await check():
            if loop.time() > limit or any(finding.signature == CHANGED for finding in findings):
                return findings
            await asyncio.sleep(0.05)
        return []

    async def _compare_writes(self):
        found = []
        for ack in self.acknowledged:
            follower = self.followers[ack.hub]
            match follower.find(ack):
                case None if not follower.resyncs:
                    found.append(_finding("a watch does not show an acknowledged write", ack))
                case (key, seen) if key != ack.key or (ack.digest and seen.digest != ack.digest):
                    found.append(_finding(CHANGED, ack, seen))
        for deleted in self.deleted:
            seen = self.followers[deleted.hub].state.get(deleted.key)
            if seen and seen.uid == deleted.uid and not seen.is_deleting:
                found.append(_finding("an object exists after its deletion was acknowledged", deleted, seen))
        return found

    async def _compare_lists(self):
        checks = await asyncio.gather(*(self._compare_list(follower) for follower in self.followers.values()))
        return [finding for finding in checks if finding]

    async def _compare_list(self, follower):
        listed, _ = await follower.list()
        wrong = [key for key in listed.keys() | follower.state.keys() if listed.get(key) != follower.state.get(key)]
        if not wrong:
            return None
        key = min(wrong)
        text = f"{follower.kind.label} {key}: listed {listed.get(key)}, watched {follower.state.get(key)}"
        return Finding("lost write", "a list differs from the sum of the events", text, ())

    def _compare_dry_runs(self):
        uids = {seen.uid for follower in self.followers.values() for seen in follower.state.values()}
        return [Finding("lost write", "a dry run was stored", uid, ()) for uid in self.dry_uids & uids]


def _finding(signature, ack, seen=None):
    return Finding("lost write", signature, f"{ack}, seen: {seen}", (ack.number,))
