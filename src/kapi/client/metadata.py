"""Objects of which only the metadata was asked for: `PartialObjectMetadata`, as the server sends them. No I/O."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.meta import GroupVersionKind


class PartialObjectMetadata(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An object of any kind without anything but its metadata."""

    gvk: ClassVar[GroupVersionKind] = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")

    api_version: str = msgspec.field(name="apiVersion", default_factory=lambda: "meta.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "PartialObjectMetadata")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
