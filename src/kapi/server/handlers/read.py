"""Get and list.

Reads without a resourceVersion are linearizable: they ask the store for its latest revision and wait until the cache
has it. `resourceVersion=0` is answered from the cache as it is. A number means "not older than", and waits for it a
little. Pages of one list all come from the first page's revision, read from history once the cache has moved on; a
continue token expires when its revision has been compacted, or by its age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import BadRequest, Expired, NotFound, Timeout
from kapi.cache.itemindex import FEWEST_ITEMS
from kapi.server.handlers.options import LATEST, ListOptions, Token, list_options, parse_token, revision_of
from kapi.server.handlers.respond import list_response, object_response, view_for
from kapi.server.handlers.selection import selector_of
from kapi.server.handlers.views import ListMeta
from kapi.server.requestinfo import is_true
from kapi.storage.interface import Compacted, FutureRevision

if TYPE_CHECKING:
    from kapi.cache.item import Item
    from kapi.cache.selector import ItemSelector
    from kapi.registry.store import ReadyItem, Store
    from kapi.server.context import Context
    from kapi.server.transport.message import Response
    from kapi.storage.interface import Page

FRESHNESS_WAIT = 3.0
"""Seconds a read waits for the revision that its client named."""
LATEST_WAIT = 60.0
"""Seconds a linearizable read waits for the latest revision; the deadline of a request may be earlier."""
SCAN_PAGE = 1000

TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


async def get(context: Context) -> Response:
    """GET of one object, main endpoint or /status."""
    info = context.info
    view = view_for(context, listing=False)
    version = context.query.get("resourceVersion")
    if version:
        await wait_until(context, revision_of(version) or 0)
    else:
        # As `wait_for_latest`, without a call: this is the most frequent request there is.
        hub = context.services.catalog.hub
        latest = await hub.storage.latest()
        if latest > hub.revision:
            await wait_until(context, latest, LATEST_WAIT)
    store = context.served.stored
    item = await store.fetch(info.namespace, info.name)
    if item.is_uninitialized and not is_true(context.query, "includeUninitialized"):
        raise NotFound.of(store.resource, info.name)
    return await object_response(context, 200, view.one(item))


async def list_(context: Context) -> Response:
    """GET of a collection."""
    resource = context.served
    view = view_for(context, listing=True)
    options = list_options(context.query, resource, watch=False)
    items, meta = await select(context, options)
    return await list_response(context, view, items, meta)


async def select(context: Context, options: ListOptions) -> tuple[list[ReadyItem], ListMeta]:
    """The items of a list, ready to be shown, and its metadata."""
    items, meta = await _select(context, options)
    return await context.served.stored.ready(items), meta


async def _select(context: Context, options: ListOptions) -> tuple[list[Item], ListMeta]:
    store = context.served.stored
    prefix = list_prefix(context)
    selector = selector_of(options, store)
    if options.token:
        if options.revision:
            raise BadRequest("specifying resource version is not allowed when using continue")
        return await _next_page(context, prefix, options, selector)
    exact = options.match == "Exact" or (options.revision and options.limit > 0 and not options.match)
    if options.revision:
        await wait_until(context, options.revision)
    elif options.revision is None:
        await wait_for_latest(context)
    if options.fields is not None:
        await store.ready_for_fields(prefix)
    if options.revision and exact and options.revision != store.hub.revision:
        return await _at_revision(store, prefix, options, selector, Token(options.revision, "", _now(store)))
    limit = 0 if options.revision == 0 else options.limit
    if selector is not None:
        await _index(context, selector)
    return await _latest(context, prefix, limit, selector, None)


def list_prefix(context: Context) -> str:
    """The key prefix a list or watch covers."""
    store, namespace = context.served.stored, context.info.namespace
    return f"{store.prefix}{namespace}/" if namespace and store.namespaced else store.prefix


async def wait_until(context: Context, revision: int, seconds: float = FRESHNESS_WAIT) -> None:
    """Wait until the cache has a revision; 504 when it does not get there in time."""
    hub = context.services.catalog.hub
    if revision > hub.revision and not await hub.wait_for(revision, seconds=seconds):
        raise Timeout.too_large_revision(revision, hub.revision)


async def wait_for_latest(context: Context) -> None:
    """Wait until the cache has what every server had acknowledged when this was called."""
    hub = context.services.catalog.hub
    revision = await hub.storage.latest()
    if revision > hub.revision:
        await wait_until(context, revision, LATEST_WAIT)


async def _index(context: Context, selector: ItemSelector) -> None:
    """Make an index that lists by this selector find their items with, if it is worth it."""
    cache = context.served.stored.cache
    index = cache.indexes.begin(selector, cache.hub.clock.monotonic()) if len(cache) >= FEWEST_ITEMS else None
    if index is None:
        return
    try:
        await context.services.turns.map(lambda item: index.take(cache.get(item.key)), cache.items())
    except BaseException:
        cache.indexes.drop(index)
        raise
    index.is_complete = True


async def _latest(
    context: Context, prefix: str, limit: int, selector: ItemSelector | None, token: Token | None
) -> tuple[list[Item], ListMeta]:
    """A page from the cache, as of now; `token` is that of a list that is continued."""
    store = context.served.stored
    revision, cache = store.hub.revision, store.cache
    first = prefix + token.start if token is not None else ""
    if selector is None:
        page, remaining = cache.page(prefix, first, limit if limit > 0 else len(cache))
    else:
        # The items are those of this moment, whatever is written while they are selected. One more than the page needs
        # says that there is another page; how many items remain is not told when there is a selector.
        candidates = cache.candidates(prefix, first, selector)
        page = await context.services.turns.select(selector.matches, candidates, limit + 1 if limit > 0 else 0)
        page, remaining = (page[:limit], len(page) - limit) if limit > 0 else (page, 0)
    if remaining <= 0:
        return page, ListMeta(revision)
    time = _now(store) if token is None else token.time
    return _page(page, prefix, revision, time, remaining if selector is None else 0)


async def _next_page(
    context: Context, prefix: str, options: ListOptions, selector: ItemSelector | None
) -> tuple[list[Item], ListMeta]:
    store = context.served.stored
    token = parse_token(options.token)
    if token.revision == LATEST:
        await wait_for_latest(context)
        token = token._replace(time=_now(store))
    elif token.time and _now(store) - token.time > store.hub.retention:
        raise _continue_expired(token)
    if options.fields is not None:
        await store.ready_for_fields(prefix)
    if token.revision in (LATEST, store.hub.revision):
        return await _latest(context, prefix, options.limit, selector, token)
    return await _at_revision(store, prefix, options, selector, token)


def _now(store: Store) -> int:
    return int(store.hub.clock.now().timestamp())


def _continue_expired(token: Token) -> Expired:
    fresh = Token(LATEST, token.start).encode()
    return Expired(CONTINUE_EXPIRED, list_metadata={"continue": fresh})


async def _at_revision(
    store: Store, prefix: str, options: ListOptions, selector: ItemSelector | None, token: Token
) -> tuple[list[Item], ListMeta]:
    """A page from history, as of the token's revision; pages are filled up after filtering."""
    limit = max(options.limit, 0)
    found: list[Item] = []
    start = prefix + token.start if token.start else ""
    while True:
        page = await _read(store, prefix, start, limit if selector is None else SCAN_PAGE, token)
        items = [store.item_of(entry) for entry in page.entries]
        if options.fields is not None:
            await store.ready(items)
        for index, item in enumerate(items):
            if selector is not None and not selector.matches(item):
                continue
            if limit and len(found) == limit:
                remaining = page.more + len(page.entries) - index if selector is None else 0
                return _page(found, prefix, token.revision, token.time, remaining)
            found.append(item)
        if not page.more:
            return found, ListMeta(token.revision)
        if selector is None and limit and len(found) == limit:
            return _page(found, prefix, token.revision, token.time, page.more)
        start = page.entries[-1].key + "\0"


def _page(found: list[Item], prefix: str, revision: int, time: int, remaining: int) -> tuple[list[Item], ListMeta]:
    token = Token(revision, found[-1].key[len(prefix) :] + "\0", time).encode()
    return found, ListMeta(revision, token, remaining)


async def _read(store: Store, prefix: str, start: str, limit: int, token: Token) -> Page:
    try:
        return await store.storage.range(prefix, start=start, limit=limit, revision=token.revision)
    except Compacted:
        raise (_continue_expired(token) if token.start else Expired(TOO_OLD)) from None
    except FutureRevision as error:
        raise Timeout.too_large_revision(error.revision, error.current) from None
