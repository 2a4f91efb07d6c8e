"""A model of garbage collection, from the rules alone: it checks garbage collectors.

A state is the set of objects. A rule turns a state into another one. The order of rules is not determined, so a history
has a set of ends: the states, reached in any order, in which no rule applies. For most histories there is one. A
collector is correct if it ends in one of them.

The model knows nothing of the collector. Uids are the numbers of the steps that created the objects.
"""

from typing import NamedTuple

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
MAX_STATES = 5_000


class Kind(NamedTuple):
    api_version: str
    name: str
    namespaced: bool


class Slot(NamedTuple):
    """Where an object is: `namespace` is empty for kinds without."""

    kind: Kind
    namespace: str
    name: str


class Ref(NamedTuple):
    kind: Kind
    name: str
    uid: int
    blocks: bool


class Thing(NamedTuple):
    """An object, as far as it matters."""

    uid: int
    refs: tuple = ()
    finalizers: frozenset = frozenset()
    deleting: bool = False


class State(NamedTuple):
    things: frozenset
    """Pairs of slot and thing."""
    served: frozenset
    """The kinds there are."""


class TooMany(Exception):
    """There are too many states to explore them all."""


# -- steps of users ---------------------------------------------------------------------------------------------------


class Create(NamedTuple):
    slot: Slot
    uid: int
    refs: tuple
    finalizers: frozenset

    def does(self, things, served):
        if self.slot in things:
            return 409
        things[self.slot] = Thing(self.uid, self.refs, self.finalizers)
        return 201


class Delete(NamedTuple):
    slot: Slot
    policy: str | None

    def does(self, things, served):
        if self.slot not in things:
            return 404
        delete(things, self.slot, self.policy)
        return 200


class Own(NamedTuple):
    """Replace the owner references of an object."""

    slot: Slot
    refs: tuple

    def does(self, things, served):
        if self.slot not in things:
            return 404
        things[self.slot] = things[self.slot]._replace(refs=self.refs)
        return 200


class Free(NamedTuple):
    """Take a finalizer away."""

    slot: Slot
    finalizer: str

    def does(self, things, served):
        if self.slot not in things:
            return 404
        release(things, self.slot, self.finalizer)
        return 200


class Define(NamedTuple):
    """Have a kind served."""

    kind: Kind

    def does(self, things, served):
        served.add(self.kind)
        return 201


def delete(things, slot, policy):
    """Apply a DELETE to the state."""
    thing = things[slot]
    ours = thing.finalizers & {ORPHAN, FOREGROUND}
    if policy is not None:
        ours = {"Orphan": {ORPHAN}, "Foreground": {FOREGROUND}, "Background": set()}[policy]
    finalizers = (thing.finalizers - {ORPHAN, FOREGROUND}) | frozenset(ours)
    if finalizers:
        things[slot] = thing._replace(finalizers=finalizers, deleting=True)
    else:
        del things[slot]


def release(things, slot, finalizer):
    thing = things[slot]
    finalizers = thing.finalizers - {finalizer}
    if thing.deleting and not finalizers:
        del things[slot]
    else:
        things[slot] = thing._replace(finalizers=finalizers)


# -- rules of a collector ---------------------------------------------------------------------------------------------


def standing(things, served, slot, ref):
    """How a reference stands."""
    if ref.kind not in served:
        return "unserved"
    if ref.kind.namespaced and not slot.namespace:
        return "senseless"
    owner = things.get(Slot(ref.kind, slot.namespace if ref.kind.namespaced else "", ref.name))
    if owner is None or owner.uid != ref.uid:
        return "dangling"
    return "waiting" if owner.deleting and FOREGROUND in owner.finalizers else "solid"


def dependents(things, uid):
    return [slot for slot, thing in things.items() if any(ref.uid == uid for ref in thing.refs)]


def collect(things, served, slot):
    """The rule for an object that is owned and not being deleted: change `things`, or do nothing."""
    thing = things[slot]
    stand = [(ref, standing(things, served, slot, ref)) for ref in thing.refs]
    kinds = {how for _, how in stand}
    if not kinds or kinds & {"unserved", "senseless"} or kinds == {"solid"}:
        return
    if "solid" in kinds:
        lost = {ref.uid for ref, how in stand if how != "solid"}
        things[slot] = thing._replace(refs=tuple(ref for ref in thing.refs if ref.uid not in lost))
        return
    below = [things[one] for one in dependents(things, thing.uid)]
    if "waiting" in kinds and below:
        if any(one.deleting and FOREGROUND in one.finalizers for one in below):
            # Two that become the same are one: the server sees to that.
            things[slot] = thing._replace(refs=tuple(dict.fromkeys(ref._replace(blocks=False) for ref in thing.refs)))
        delete(things, slot, "Foreground")
        return
    policy = (
        "Orphan" if ORPHAN in thing.finalizers else "Foreground" if FOREGROUND in thing.finalizers else "Background"
    )
    delete(things, slot, policy)


def moves(state):
    """Every state that one step of a collector may lead to."""
    for slot, thing in state.things:
        things, below = dict(state.things), []
        if not thing.deleting:
            collect(things, state.served, slot)
        elif ORPHAN in thing.finalizers:
            below = dependents(things, thing.uid)
            for one in below:
                # One by one: others may act in between.
                apart, refs = dict(things), things[one].refs
                apart[one] = things[one]._replace(refs=tuple(ref for ref in refs if ref.uid != thing.uid))
                yield State(frozenset(apart.items()), state.served)
            if not below:
                release(things, slot, ORPHAN)
        elif FOREGROUND in thing.finalizers:
            blocked = any(ref.uid == thing.uid and ref.blocks for other in things.values() for ref in other.refs)
            if not blocked:
                release(things, slot, FOREGROUND)
        after = frozenset(things.items())
        if after != state.things:
            yield State(after, state.served)


# -- all ends ---------------------------------------------------------------------------------------------------------


def ends(start, steps):
    """Every state in which a collector may end, after the `steps` of users: pairs of a step and its status.

    A step may happen at any moment of the collector's work; one that would have been answered otherwise did not.
    """
    found, seen, waiting = set(), set(), [(start, 0)]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > MAX_STATES:
            raise TooMany
        state, done = node
        following = list(moves(state))
        waiting += [(after, done) for after in following]
        if done < len(steps):
            step, status = steps[done]
            things, served = dict(state.things), set(state.served)
            if step.does(things, served) == status:
                waiting.append((State(frozenset(things.items()), frozenset(served)), done + 1))
        elif not following:
            found.add(state)
    return found


def is_at_rest(state):
    """Return True if no rule applies."""
    return not any(True for _ in moves(state))
