"""The lists of a resource that is read by its functions: selectors and pages, unless the function applied them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.errors import Expired
from kapi.apiserver.backing import BackedStore
from kapi.apiserver.resources import ListOptions, Page, Request
from kapi.registry.custom.store import compile_schema
from kapi.server.handlers import read as reading
from kapi.server.handlers.options import LATEST, Token, parse_token
from kapi.server.handlers.selection import selector_of
from kapi.server.handlers.views import ListMeta

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.cache.watchcache import Item
    from kapi.registry.store import ReadyItem
    from kapi.server.context import Context
    from kapi.server.handlers.options import ListOptions as ReadOptions


def request_of(context: Context) -> Request:
    """Return a request as the functions of a resource see it."""
    info = context.info
    return Request(context.user, info.namespace, info.subresource, context.audit_id, context.warnings)


def backed_store(context: Context) -> BackedStore:
    """Return the store of a request to a resource that is read by its functions."""
    store = context.served.stored
    assert isinstance(store, BackedStore)
    return store


def given(options: ReadOptions) -> ListOptions:
    """Return the options of a list or a watch as the functions of a resource see them."""
    version = "" if options.revision is None else str(options.revision)
    return ListOptions(options.labels, options.fields, max(options.limit, 0), options.token, version)


async def select(context: Context, options: ReadOptions) -> tuple[list[ReadyItem], ListMeta]:
    """Return the objects that a resource lists, those that the selectors match, and a page of them."""
    store = backed_store(context)
    await compile_schema(store.schemas[store.api_version])
    listed: Any = await store.backing.list(request_of(context), given(options))
    selector = selector_of(options, store)
    matches = None if selector is None else selector.matches
    if isinstance(listed, Page):
        meta = ListMeta(int(listed.resource_version or 0), listed.continue_token, listed.remaining)
        return await _items(context, store, listed.items, matches), meta
    if options.match == "Exact":
        raise Expired(reading.TOO_OLD)
    items = await _items(context, store, listed, matches)
    items.sort(key=lambda item: item.key)
    return _paged(items, options, store.prefix)


async def _items(
    context: Context, store: BackedStore, objects: Any, matches: Callable[[Item], bool] | None
) -> list[ReadyItem]:
    namespace = context.info.namespace
    items: list[ReadyItem] = await context.services.turns.map(store.item_of_object, list(objects))
    return [item for item in items if namespace in ("", item.namespace) and (matches is None or matches(item))]


def _paged(items: list[ReadyItem], options: ReadOptions, prefix: str) -> tuple[list[ReadyItem], ListMeta]:
    """Return a page of what there is now: a list that is continued is not one of a single moment."""
    if options.token:
        start = prefix + parse_token(options.token).start
        items = [item for item in items if item.key >= start]
    page = items[: options.limit] if options.limit > 0 else items
    remaining = len(items) - len(page)
    if not remaining:
        return page, ListMeta(0)
    token = Token(LATEST, page[-1].key[len(prefix) :] + "\0").encode()
    return page, ListMeta(0, token, 0 if options.selective else remaining)
