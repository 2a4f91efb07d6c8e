"""The params of policies: objects of any kind that a binding names or selects, read from the watch cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.meta import GroupVersionKind
from kapi.api.selectors import SelectorError, from_label_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource

_MOST_REMEMBERED: Final = 256

_CLUSTER_SCOPED_REQUEST: Final = (
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
)
_CLUSTER_SCOPED_KIND: Final = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
_NOT_FOUND: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ConfigurationError(Exception):
    """A policy or a binding cannot be used as it is; the text says why."""


class Params:
    """Finds the params of bindings. Decoded objects are shared: nothing may change them."""

    def __init__(self, catalog: Catalog, *, with_kind: bool = True) -> None:
        """Without `with_kind`, params of built-in kinds have no apiVersion and kind, as mutations see them."""
        self._catalog = catalog
        self._with_kind = with_kind
        self._resources: dict[tuple[str, str], Resource] = {}
        self._decoded: dict[tuple[Resource, str], tuple[Item, Object]] = {}
        catalog.on_change.append(self._forget)

    def _forget(self) -> None:
        self._resources.clear()
        self._decoded.clear()

    def resource(self, kind: Object | None) -> Resource | None:
        """Return the resource of a policy's paramKind, None if it has none; ConfigurationError if it is not served."""
        if kind is None:
            return None
        wanted = kind.get("apiVersion", ""), kind.get("kind", "")
        found = self._resources.get(wanted)
        if found is None:
            group, _, version = wanted[0].rpartition("/")
            gvk = GroupVersionKind(group, version, wanted[1])
            found = next((one for one in self._catalog if one.gvk == gvk and one.store is not None), None)
            if found is None:
                shown = f"{gvk.api_version}, Kind={gvk.kind}"
                raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")
            self._resources[wanted] = found
        return found

    async def collect(
        self, resource: Resource | None, reference: Object | None, namespace: str
    ) -> Sequence[Object | None]:
        """Return the params of a binding for a request in a namespace: one None if there are none to be used.

        An empty result means that none were found and that the binding does not apply then.
        """
        if resource is None or reference is None:
            return (None,)
        given: str = reference.get("namespace", "")
        if resource.namespaced:
            namespace = given or namespace
            if not namespace:
                raise ConfigurationError(_CLUSTER_SCOPED_REQUEST)
        elif given:
            raise ConfigurationError(_CLUSTER_SCOPED_KIND)
        else:
            namespace = ""
        items = _selected(resource, reference, namespace)
        if not items and reference.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError(_NOT_FOUND)
        return [self._decode(resource, item) for item in await resource.stored.ready(items)]

    def _decode(self, resource: Resource, item: Item) -> Object:
        key = resource, item.key
        known = self._decoded.get(key)
        if known is not None and known[0] is item:
            return known[1]
        obj: Object = resource.convert_out(resource.stored.decode(item))
        if resource.custom is None and not self._with_kind:
            obj = {field: value for field, value in obj.items() if field not in ("apiVersion", "kind")}
        if len(self._decoded) >= _MOST_REMEMBERED:
            self._decoded.clear()
        self._decoded[key] = item, obj
        return obj


def _selected(resource: Resource, reference: dict[str, Any], namespace: str) -> list[Item]:
    store = resource.stored
    if name := reference.get("name"):
        item = store.find(namespace, name)
        return [] if item is None else [item]
    try:
        selector = from_label_selector(reference.get("selector"))
    except SelectorError as error:
        raise ConfigurationError(str(error)) from None
    prefix = f"{store.prefix}{namespace}/" if namespace else ""
    return [item for item in store.cache.items(prefix) if selector.matches(item.labels or {})]
