"""Subresources, such as `scale`, `eviction` and `token`.

Requests and responses are seldom of the object's kind, so they are dictionaries, except for Scale, which is the same
for all kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kapi.client.documents import encode, encode_patch
from kapi.client.errors import AnswerError
from kapi.client.options import object_path, write_query
from kapi.client.typed import class_decoder, patch_type

if TYPE_CHECKING:
    from typing import Unpack

    from kapi.api.access import AnyObject
    from kapi.api.builtin.autoscaling_v1 import Scale
    from kapi.api.meta import GroupVersionResource, Object
    from kapi.client.options import PatchOptions, ReadOptions, WriteOptions
    from kapi.client.rest import Answer, RESTClient
    from kapi.client.typed import PatchKind


@dataclass(frozen=True, slots=True)
class SubresourceClient:
    """The verbs of one subresource of one resource."""

    rest: RESTClient
    gvr: GroupVersionResource
    namespace: str
    subresource: str

    async def get(self, name: str, **options: Unpack[ReadOptions]) -> Object:
        """Return the subresource of an object."""
        return _object(await self._send("GET", name, options))

    async def create(self, name: str, body: AnyObject, **options: Unpack[WriteOptions]) -> Object:
        """POST to the subresource: evict, bind, request a token."""
        return _object(await self._send("POST", name, options, body=encode(body)))

    async def update(self, name: str, body: AnyObject, **options: Unpack[WriteOptions]) -> Object:
        """Replace the subresource."""
        return _object(await self._send("PUT", name, options, body=encode(body)))

    async def patch(
        self, name: str, patch: Any, *, kind: PatchKind = "merge", **options: Unpack[PatchOptions]
    ) -> Object:
        """Patch the subresource."""
        return _object(await self._patch(name, patch, kind, options))

    async def get_scale(self, name: str, **options: Unpack[ReadOptions]) -> Scale:
        """Return the subresource as a Scale."""
        return _scale(await self._send("GET", name, options))

    async def set_scale(self, name: str, replicas: int, **options: Unpack[PatchOptions]) -> Scale:
        """Set the desired number of replicas."""
        return _scale(await self._patch(name, {"spec": {"replicas": replicas}}, "merge", options))

    async def _patch(self, name: str, patch: Any, kind: PatchKind, options: PatchOptions) -> Answer:
        return await self._send("PATCH", name, options, body=encode_patch(patch), content_type=patch_type(kind))

    async def _send(self, method: str, name: str, options: Any, **request: Any) -> Answer:
        path = object_path(self.gvr, self.namespace, name, self.subresource)
        query = {
            **write_query(options),
            "force": options.get("force"),
            "resourceVersion": options.get("resource_version"),
        }
        return await self.rest.send(method, path, query=query, timeout=options.get("timeout"), **request)


def _object(answer: Answer) -> Object:
    obj = answer.decoded()
    if not isinstance(obj, dict):
        raise AnswerError("the answer is not an object")
    return obj


def _scale(answer: Answer) -> Scale:
    from kapi.api.builtin.autoscaling_v1 import Scale

    return class_decoder(Scale)(answer.body)
