"""The store of one version of a custom kind.

All versions of a kind keep their objects under the same keys, in the storage version; each has a store of its own, and
to its users everything is in its version. What is stored may be in an older storage version, or obey an older schema.
When it is read, it is pruned and defaulted by the version it is stored in, then converted, and pruned once more by the
version asked for, which fills nothing in; the outcome is remembered with the item. So an object written by the current
rules is served as the bytes it is stored as, and others cost one conversion. A field that the storage version does not
have is not stored, whoever writes it.

Conversion by webhook waits for somebody else. `load` and `prepare` are where that happens; `body` and `decode` must not
wait, and are for items that were prepared.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kapi.api.errors import Forbidden, TooManyRequests
from kapi.cache.watchcache import Item, Selection
from kapi.registry.custom.conversion import relabel
from kapi.registry.encoding import copy_of, decode, encode, head_of, owners_of
from kapi.registry.outcome import Written
from kapi.registry.store import Store
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kapi.api.meta import Object
    from kapi.registry.custom.conversion import Converter
    from kapi.registry.custom.strategy import CustomStrategy
    from kapi.registry.outcome import Admit, Build
    from kapi.registry.store import Rules
    from kapi.registry.strategy import WriteContext
    from kapi.schema.customschema import CustomSchema

MOST_FORMS = 8
"""How many forms of one object are remembered before the oldest, perhaps of rules long gone, are forgotten."""


class Form:
    """A token: objects of this form obey one version of one definition as it is now."""

    __slots__ = ()


class Gate:
    """Shut while a definition is being written, so that nothing judged before is committed after.

    What was on its way to storage before the gate was shut gets there before the definition does.
    """

    def __init__(self) -> None:
        self._shut = 0
        self._opened = asyncio.Event()

    def shut(self) -> None:
        """Hold back whoever comes from now on; as often as `open` is called afterwards."""
        self._shut += 1
        self._opened.clear()

    def open(self) -> None:
        """Let them go."""
        self._shut -= 1
        if not self._shut:
            self._opened.set()

    async def passed(self) -> None:
        """Wait until the gate is open."""
        while self._shut:
            await self._opened.wait()


class CustomStore(Store):
    """The objects of a custom kind in one version.

    Promise: what `load`, `body` and `decode` give has nothing that the schema does not know, and has the defaults of
    the version it is stored in, even when what is stored has not.
    """

    strategy: CustomStrategy
    converter: Converter | None = None
    """Who converts; None when only the apiVersion changes."""
    storage_version = ""
    """The apiVersion objects are stored in."""
    schemas: Mapping[str, CustomSchema]
    """The schemas of all versions there are, by apiVersion."""
    is_terminating = False
    """Whether the definition is being deleted: nothing new is created then."""
    is_retired = False
    """Whether the definition has changed: whoever still holds this store must not write with it."""
    gate: Gate
    """Shut while the definition is being written."""

    def settle(
        self, schemas: Mapping[str, CustomSchema], storage_version: str, converter: Converter | None, gate: Gate
    ) -> None:
        """Say what the version is made of; once, before use."""
        self.schemas = schemas
        self.gate = gate
        self.storage_version = storage_version
        self.converter = converter
        self.api_version = self.gvk.api_version
        self.form = Form()
        self._asked: dict[Item, asyncio.Future[None]] = {}

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def is_remote(self) -> bool:
        """Whether a webhook converts."""
        return self.converter is not None

    def body(self, item: Item) -> bytes:
        """The object's bytes in this version, without the head."""
        if item.form is self.form:
            return item.body
        if item.forms is not None and (body := item.forms.get(self.form)) is not None:
            return body
        obj = self._stored_object(item)
        if item.version != self.api_version:
            if self.converter is not None:
                raise RuntimeError(f"{item.key} in {item.version} was not prepared for {self.api_version}")
            obj = self._pruned(relabel(obj, self.api_version))
        return self._remember(item, obj)

    def decode(self, item: Item) -> Object:
        """The object in this version; yours to change."""
        return decode(self.head, self.body(item))

    async def load(self, item: Item) -> Object:
        """The object in this version, however it has to be got; yours to change."""
        await self.prepare((item,))
        return self.decode(item)

    async def prepare(self, items: Iterable[Item]) -> None:
        """Convert what has to be converted by somebody else, in one go; afterwards nothing about them waits."""
        if self.converter is None:
            return
        items = list(items)
        while foreign := [item for item in items if self._is_foreign(item)]:
            fresh = [item for item in foreign if item not in self._asked]
            # Many may want the same: all watchers, when something happened. One of them asks.
            await (self._ask(self.converter, fresh) if fresh else asyncio.shield(self._asked[foreign[0]]))

    def _is_foreign(self, item: Item) -> bool:
        return (
            item.version != self.api_version
            and item.form is not self.form
            and (item.forms is None or self.form not in item.forms)
        )

    async def _ask(self, converter: Converter, items: list[Item]) -> None:
        """Have items converted. Whoever waits for them too shares the failure, but not the fate of this request."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked |= dict.fromkeys(items, done)
        try:
            converted = await converter.convert([self._stored_object(item) for item in items], self.api_version)
            for item, obj in zip(items, converted, strict=True):
                self._remember(item, self._pruned(obj))
        except Exception as error:
            done.set_exception(error)
            done.exception()  # nobody else may be waiting
            raise
        finally:
            for item in items:
                del self._asked[item]
            if not done.done():
                done.set_result(None)

    def field_values(self, item: Item) -> dict[str, str]:
        """Everything a field selector may ask about, in this version."""
        values = {"metadata.name": item.name, "metadata.namespace": item.namespace}
        if self.strategy.selectable_fields:
            values |= (
                item.fields if item.form is self.form and item.fields else self.strategy.selectable(self.decode(item))
            )
        return values

    def _stored_object(self, item: Item) -> Object:
        """What is stored, as the version it is stored in has it today."""
        return self._shaped(decode(head_of(item.version, self.gvk.kind), item.body))

    def _shaped(self, obj: Object) -> Object:
        schema = self.schemas.get(obj["apiVersion"])
        if schema is not None:
            schema.coerce(obj, lenient=True)
            schema.default(obj)
        return obj

    def _pruned(self, obj: Object) -> Object:
        self.schemas[obj["apiVersion"]].coerce(obj, lenient=True)
        return obj

    def _remember(self, item: Item, obj: Object) -> bytes:
        body = encode(obj)[len(self.head) :]
        if body == item.body and item.version == self.api_version:
            item.form = self.form
            # Another version of the definition may have named other fields to select by.
            item.fields = self.strategy.selectable(obj) if self.strategy.selectable_fields else None
            return item.body
        forms = item.forms or {}
        if len(forms) >= MOST_FORMS:
            forms.pop(next(iter(forms)))
        item.forms = {**forms, self.form: body}
        return body

    async def convert(self, obj: Object, api_version: str) -> Object:
        """An object of this kind, which says what version it is in, in another version."""
        if obj["apiVersion"] == api_version:
            return obj
        if self.converter is None:
            return relabel(obj, api_version)
        return (await self.converter.convert([obj], api_version))[0]

    # -- writing ----------------------------------------------------------------------------------------------------

    async def create(self, context: WriteContext, obj: Object, admit: Admit) -> Written:
        """Store a new object, unless its kind is on its way out."""
        self._refuse_creation(obj["metadata"].get("name", ""))
        return await super().create(context, obj, admit)

    async def update(
        self,
        context: WriteContext,
        namespace: str,
        name: str,
        build: Build,
        admit: Admit,
        *,
        rules: Rules | None = None,
        patch: bool = False,
    ) -> Written:
        """Change an object. A change of nothing still brings it into the form in which it would be stored today.

        That is how objects are moved to another storage version: by writing back what was read.
        """
        seen = ""

        async def noting(old: Object, fresh: Callable[[], Object]) -> Object:
            nonlocal seen
            seen = old["metadata"]["resourceVersion"]
            return await build(old, fresh)

        while True:
            written = await super().update(context, namespace, name, noting, admit, rules=rules, patch=patch)
            if context.dry_run or written.deleted or str(written.item.revision) != seen:
                return written
            try:
                return Written(await self._restored(written.item))
            except RevisionMismatch:
                continue

    async def _restored(self, item: Item) -> Item:
        """An item as it would be stored today, committed if that is something else."""
        if item.form is self.form and item.version == self.storage_version:
            return item
        stored = self._pruned(await self.convert(await self.load(item), self.storage_version))
        if item.version == self.storage_version and decode(head_of(item.version, self.gvk.kind), item.body) == stored:
            return item
        await self._ready()
        restored = await super().write(item.key, stored, item.revision)
        await self.prepare((restored,))
        return restored

    async def write(self, key: str, obj: Object, expected: int) -> Item:
        """Commit an object in the storage version; the item returned is in this one."""
        stored = obj
        if self.api_version != self.storage_version:
            stored = self._pruned(await self.convert(copy_of(obj), self.storage_version))
        await self._ready()
        if not expected:
            self._refuse_creation(obj["metadata"]["name"])
        item = await super().write(key, stored, expected)
        if self.converter is None or stored is obj:
            return item
        # What was sent is shown without asking to convert it back.
        obj["metadata"]["resourceVersion"] = str(item.revision)
        body = encode(obj)[len(self.head) :]
        return Item(key, item.namespace, item.name, item.revision, body, self._selection(obj), self.api_version)

    def fill_in(self, obj: Object) -> None:
        """Fill in, in what is about to be stored, the defaults that reading it would."""
        if self.api_version == self.storage_version:
            self.strategy.default(obj)

    def preview(self, key: str, obj: Object, current: Item | None = None) -> Item:
        """What the object would look like, with what the storage version does to it."""
        if self.converter is None and self.api_version != self.storage_version:
            stored = self._shaped(relabel(copy_of(obj), self.storage_version))
            obj = self._pruned(relabel(stored, self.api_version))
        return super().preview(key, obj, current)

    def _refuse_creation(self, name: str) -> None:
        if self.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise Forbidden.of(self.resource, name, why)

    async def _ready(self) -> None:
        """Come to the point where what follows without a wait is committed before the definition can change."""
        await self.gate.passed()
        if self.is_retired:
            # What was checked against the old definition must not be stored under the new one.
            raise TooManyRequests(
                f"the definition of {self.resource} changed while the request was handled; try again",
                details={"retryAfterSeconds": 1},
            )

    def _selection(self, obj: Object) -> Selection:
        # Reading drops nulls that writing lets pass.
        fits = obj["apiVersion"] == self.api_version and not _has_null(obj)
        fields = self.strategy.selectable(obj) if fits and self.strategy.selectable_fields else None
        metadata = obj["metadata"]
        return Selection(metadata.get("labels"), fields, self.form if fits else None, owners_of(metadata))


def _has_null(value: Any) -> bool:
    """Whether there is a null anywhere in a value."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        for below in current.values() if isinstance(current, dict) else current:
            if below is None:
                return True
            if isinstance(below, dict | list):
                waiting.append(below)
    return False
