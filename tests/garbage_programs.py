"""Random programs about objects that own each other, and how to run one against an API server.

A program is bursts of steps; between bursts the collector finishes. Steps name objects by slot; which uid a reference
gets is known when it is written. `run` records what was done and answered, for `garbage_model` to check.
"""

import uuid
from typing import NamedTuple

from garbage_model import FOREGROUND, ORPHAN, Create, Define, Delete, Free, Kind, Own, Ref, Slot, State, Thing

HOLD = "test.dev/hold"
GROUP = "garbage.test.dev"
BOX = Kind("v1", "ConfigMap", True)
ROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", False)
CRATE = Kind(f"{GROUP}/v1", "Crate", True)
SILO = Kind(f"{GROUP}/v1", "Silo", False)
GHOST = Kind(f"{GROUP}/v1", "Ghost", True)
"""Defined by a step, or never."""

BUILT_IN, CUSTOM = (BOX, ROLE), (CRATE, SILO)
PATHS = {BOX: "configmaps", ROLE: "clusterroles", CRATE: "crates", SILO: "silos", GHOST: "ghosts"}
POLICIES = (None, "Background", "Background", "Foreground", "Foreground", "Orphan")
NO_UID = -1
"""A uid that no object has."""


class Link(NamedTuple):
    """A reference to be written: to the object in a slot, or to another one that was or never was there."""

    target: Slot
    blocks: bool
    which: str


class Make(NamedTuple):
    slot: Slot
    links: tuple
    finalizers: frozenset


class Relink(NamedTuple):
    slot: Slot
    links: tuple


def places(program):
    """Where the objects of a program are."""
    return list(dict.fromkeys(step.slot for burst in program for step in burst if not isinstance(step, Define)))


def random_program(rng, spaces, *, bursts=4, longest=4, ghosts=True):
    """Bursts of steps, on a few objects, most of them in the first namespace.

    Everything is made first, so that an object mostly belongs to those before it; later owners close cycles.
    """
    kinds = rng.choices((*BUILT_IN, *CUSTOM), weights=(3, 1, 3, 1), k=7)
    known = list(dict.fromkeys(_slot(rng, kind, spaces, number) for number, kind in enumerate(kinds)))
    program = [[_make(rng, slot, known[:number]) for number, slot in enumerate(known)]]
    program += [
        [_step(rng, known, ghosts) for _ in range(rng.randint(1, longest))] for _ in range(rng.randint(1, bursts))
    ]
    return program


def _slot(rng, kind, spaces, number):
    space = rng.choices(spaces, weights=(5, 1))[0] if kind.namespaced else ""
    # Some names occur twice: in both namespaces, and of two kinds.
    return Slot(kind, space, f"n{number % 5}")


def _make(rng, slot, others):
    finalizers = {HOLD} if rng.random() < 0.2 else set()
    if rng.random() < 0.2:
        finalizers.add(rng.choice((ORPHAN, FOREGROUND)))
    return Make(slot, _links(rng, slot, others), frozenset(finalizers))


def _links(rng, slot, others):
    if not others:
        return ()
    # Mostly owners that can be owners, else most programs would be about nothing but mistakes.
    able = [one for one in others if not one.kind.namespaced or one.namespace == slot.namespace]
    links = {}
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
        target = rng.choice(able if able and rng.random() < 0.95 else others)
        which = rng.choice(("now",) * 14 + ("past", "never"))
        links[target, which] = Link(target, rng.random() < 0.7, which)
    return tuple(links.values())


def _step(rng, known, ghosts):
    slot = rng.choice(known)
    dice = rng.random()
    if dice < 0.45:
        return Delete(slot, rng.choice(POLICIES))
    if dice < 0.65:
        return Relink(slot, _links(rng, slot, known))
    if dice < 0.78:
        return _make(rng, slot, known)
    if dice < 0.92 or not ghosts:
        return Free(slot, HOLD)
    if dice < 0.97:
        return Relink(slot, (*_links(rng, slot, known)[:1], Link(Slot(GHOST, slot.namespace, "n0"), True, "never")))
    return Define(GHOST)


# -- running ----------------------------------------------------------------------------------------------------------


def definition(kind):
    """The definition of a custom kind."""
    plural = PATHS[kind]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": plural, "kind": kind.name},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


class Runner:
    """Does the steps of a program to a server: `call(method, path, body)` gives a status and an object.

    With a `prefix`, objects without a namespace share a server with those of other programs.
    """

    def __init__(self, call, prefix=""):
        self.call = call
        self._prefix = prefix
        self._uids = {}
        """The uids of the server by those of the model."""
        self._made = {}
        """The uids there have been in each slot."""
        self._count = 0
        self.served = {*BUILT_IN, *CUSTOM}

    def path(self, kind, namespace="", name=""):
        api = f"/api/{kind.api_version}" if "/" not in kind.api_version else f"/apis/{kind.api_version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"{api}{where}/{PATHS[kind]}" + (f"/{self._name(kind, name)}" if name else "")

    def _name(self, kind, name):
        return name if kind.namespaced else self._prefix + name

    async def do(self, step):
        """Take a step; the step for the model, and the status of the answer."""
        if isinstance(step, Make):
            return await self._make(step)
        if isinstance(step, Define):
            crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await self.call("POST", crds, definition(step.kind))
            self.served.add(step.kind)
            return step, 201
        path = self.path(*step.slot)
        if isinstance(step, Delete):
            options = {} if step.policy is None else {"propagationPolicy": step.policy}
            status, _ = await self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        elif isinstance(step, Relink):
            step = Own(step.slot, self._refs(step.links))
            patch = {"metadata": {"ownerReferences": self._written(step.refs) or None}}
            status, _ = await self.call("PATCH", path, patch)
        else:
            status, step = await self._free(step, path)
        return step, status

    async def _make(self, step):
        self._count += 1
        made = Create(step.slot, self._count, self._refs(step.links), step.finalizers)
        metadata = {"name": self._name(step.slot.kind, step.slot.name), "ownerReferences": self._written(made.refs)}
        metadata["finalizers"] = sorted(step.finalizers)
        obj = {"apiVersion": step.slot.kind.api_version, "kind": step.slot.kind.name, "metadata": metadata}
        status, answer = await self.call("POST", self.path(step.slot.kind, step.slot.namespace), obj)
        if status == 201:
            self._uids[self._count] = answer["metadata"]["uid"]
            self._made.setdefault(step.slot, []).append(self._count)
        return made, status

    async def _free(self, step, path):
        while True:
            status, obj = await self.call("GET", path, None)
            if status == 404:
                return status, step
            kept = [name for name in obj["metadata"].get("finalizers", ()) if name != step.finalizer]
            guard = {key: obj["metadata"][key] for key in ("uid", "resourceVersion")}
            status, _ = await self.call("PATCH", path, {"metadata": {**guard, "finalizers": kept or None}})
            if status != 409:
                return status, step

    def _refs(self, links):
        refs = []
        for target, blocks, which in links:
            past = self._made.get(target, [])
            uid = NO_UID if which == "never" or not past else past[-1] if which == "now" else past[0]
            refs.append(Ref(target.kind, target.name, uid, blocks))
        return tuple(dict.fromkeys(refs))

    def _written(self, refs):
        return [
            {
                "apiVersion": ref.kind.api_version,
                "kind": ref.kind.name,
                "name": self._name(ref.kind, ref.name),
                "uid": self._uids.get(ref.uid) or str(uuid.uuid4()),
                "blockOwnerDeletion": ref.blocks,
            }
            for ref in refs
        ]

    async def state(self, places):
        """The current state, as the model has it."""
        numbers = {uid: number for number, uid in self._uids.items()}
        kinds = {(kind.api_version, kind.name): kind for kind in (*BUILT_IN, *CUSTOM, GHOST)}
        things = {}
        for slot in places:
            status, obj = await self.call("GET", self.path(*slot), None)
            if status == 404:
                continue
            metadata = obj["metadata"]
            refs = []
            for ref in metadata.get("ownerReferences", ()):
                kind = kinds[ref["apiVersion"], ref["kind"]]
                name = ref["name"] if kind.namespaced else ref["name"].removeprefix(self._prefix)
                blocks = ref.get("blockOwnerDeletion", False)
                refs.append(Ref(kind, name, numbers.get(ref["uid"], NO_UID), blocks))
            finalizers = frozenset(metadata.get("finalizers", ()))
            deleting = "deletionTimestamp" in metadata
            things[slot] = Thing(numbers[metadata["uid"]], tuple(refs), finalizers, deleting)
        return State(frozenset(things.items()), frozenset(self.served))
