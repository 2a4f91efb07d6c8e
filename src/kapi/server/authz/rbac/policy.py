"""The RBAC policy of a server: its roles and bindings, indexed by subject, as the watch cache has them.

Bindings are read when they are written, so that the bindings of a user are found without looking at those of others.
Roles are read when they are first needed. A change of either is heard before its write is answered: the next request
is decided by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.go.text import quote
from kapi.server.authz.rbac.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.api.user import User
    from kapi.cache.watchcache import Event, Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.store import Store

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"roles.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
ROLE_BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS: Final = f"clusterrolebindings.{GROUP}"


class Subject(NamedTuple):
    """A user or a group that a binding names. A service account is the user it is authenticated as."""

    is_group: bool
    name: str


class Binding(NamedTuple):
    """One RoleBinding or ClusterRoleBinding."""

    key: str
    title: str
    """How reasons name it: `ClusterRoleBinding "a" of ClusterRole "b"`."""
    namespace: str
    """Empty for a ClusterRoleBinding."""
    role_kind: str
    role_name: str
    subjects: tuple[tuple[Subject, str], ...]
    """Each subject with the words that reasons name it by."""


class Grant(NamedTuple):
    """What one binding gives a user: rules, or the error that prevented finding them."""

    source: str
    rules: tuple[Rule, ...] = ()
    error: str = ""


class RoleNotFound(LookupError):
    """A role that a binding refers to does not exist, or cannot be read."""


class UnsupportedRole(RoleNotFound):
    """A binding refers to a role of an unknown kind."""


_BySubject = dict[Subject, dict[str, Binding]]


class Policy:
    """The roles and bindings of a server."""

    def __init__(self, catalog: Catalog) -> None:
        self._roles = catalog.store(ROLES)
        self._cluster_roles = catalog.store(CLUSTER_ROLES)
        self._rules: dict[str, tuple[Rule, ...]] = {}
        """The rules of roles that were needed, by storage key."""
        self._bindings: dict[str, Binding] = {}
        self._by_subject: dict[str, _BySubject] = {}
        """The bindings in each namespace by subject; those of the cluster under the empty name."""
        self._listeners: list[Callable[[], None]] = []
        self._binding_stores = [catalog.store(name) for name in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)]

    def start(self) -> None:
        """Read what is stored and follow its changes; called once the watch cache is loaded."""
        for store in (self._roles, self._cluster_roles):
            store.cache.listen(self._roles_changed)
        for store in self._binding_stores:
            self._follow_bindings(store)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a listener after every change of the policy."""
        self._listeners.append(listener)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yield what the bindings give a user: those of the cluster, then those in a namespace, in order of name."""
        subjects = {Subject(is_group=False, name=user.name), *(Subject(is_group=True, name=g) for g in user.groups)}
        yield from self._grants(subjects, "")
        if namespace:
            yield from self._grants(subjects, namespace)

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...]:
        """Return the rules of a role that a binding in a namespace refers to; `RoleNotFound` says why it has none."""
        if kind == "Role":
            store = self._roles
        elif kind == "ClusterRole":
            store = self._cluster_roles
        else:
            raise UnsupportedRole(f"unsupported role reference kind: {quote(kind)}")
        item = store.find(namespace, name)
        if item is None:
            raise RoleNotFound(f"{kind.lower()}.{GROUP} {quote(name)} not found")
        rules = self._rules.get(item.key)
        if rules is None:
            rules = self._rules[item.key] = _read_rules(store, item)
        return rules

    def _grants(self, subjects: set[Subject], namespace: str) -> Iterator[Grant]:
        index = self._by_subject.get(namespace)
        if not index:
            return
        bindings: dict[str, Binding] = {}
        for subject in subjects & index.keys():
            bindings |= index[subject]
        for _, binding in sorted(bindings.items()):
            words = next(words for subject, words in binding.subjects if subject in subjects)
            source = f"{binding.title} to {words}"
            try:
                yield Grant(source, self.role_rules(binding.role_kind, namespace, binding.role_name))
            except RoleNotFound as error:
                yield Grant(source, error=str(error))

    # -- changes ------------------------------------------------------------------------------------------------------

    def _roles_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            self._rules.pop(event.item.key, None)
        self._changed()

    def _follow_bindings(self, store: Store) -> None:
        for item in store.cache.items():
            with store.hub.invalid.guard(item.key, "RBAC"):
                self._add(_read_binding(store, item))

        def changed(events: Sequence[Event]) -> None:
            # The old state is removed first, and listeners are called: a binding that cannot be read grants nothing.
            for event in events:
                self._remove(event.item.key)
            self._changed()
            for event in events:
                if not event.deleted:
                    self._add(_read_binding(store, event.item))

        store.cache.listen(changed)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    def _add(self, binding: Binding) -> None:
        self._bindings[binding.key] = binding
        index = self._by_subject.setdefault(binding.namespace, {})
        for subject, _ in binding.subjects:
            index.setdefault(subject, {})[binding.key] = binding

    def _remove(self, key: str) -> None:
        binding = self._bindings.pop(key, None)
        if binding is None:
            return
        # There is no index for a namespace whose bindings have no subjects.
        index = self._by_subject.get(binding.namespace, {})
        for subject, _ in binding.subjects:
            bindings = index.get(subject)
            if bindings is not None and bindings.pop(key, None) is not None and not bindings:
                del index[subject]
        if not index:
            self._by_subject.pop(binding.namespace, None)


def _read_rules(store: Store, item: Item) -> tuple[Rule, ...]:
    try:
        return tuple(Rule(rule) for rule in store.decode(item).get("rules") or ())
    except Exception as error:
        # Written by other means than this server's API. The role grants nothing.
        raise RoleNotFound(f"the rules of {item.key} cannot be read: {error}") from error


def _read_binding(store: Store, item: Item) -> Binding:
    obj: Object = store.decode(item)
    reference = obj["roleRef"]
    kind, name = store.gvk.kind, f"{item.name}/{item.namespace}" if item.namespace else item.name
    title = f"{kind} {quote(name)} of {reference['kind']} {quote(reference['name'])}"
    subjects = [found for subject in obj.get("subjects") or () if (found := _subject(subject, item.namespace))]
    return Binding(item.key, title, item.namespace, reference["kind"], reference["name"], tuple(subjects))


def _subject(subject: dict[str, Any], namespace: str) -> tuple[Subject, str] | None:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "ServiceAccount":
        # A binding in a namespace need not name it again.
        namespace = subject.get("namespace") or namespace
        if not namespace:
            return None
        user = Subject(is_group=False, name=f"system:serviceaccount:{namespace}:{name}")
        return user, f"{kind} {quote(f'{name}/{namespace}')}"
    if kind in ("User", "Group"):
        return Subject(is_group=kind == "Group", name=name), f"{kind} {quote(name)}"
    return None
