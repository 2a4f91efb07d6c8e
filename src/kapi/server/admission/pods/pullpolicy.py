"""AlwaysPullImages: images are pulled each time, so that only those who may pull an image can use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import PlainError
from kapi.api.fielderror import not_supported
from kapi.api.meta import GroupResource
from kapi.registry.kinds.core.pod.security import each_container
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

PODS: Final = GroupResource("", "pods")
ALWAYS: Final = "Always"


class AlwaysPullImages:
    """Sets the pull policy of all images of a Pod to Always, unless an update brings no other image."""

    reads_only = True

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for Pods that are created or updated."""
        return operation in (CREATE, UPDATE) and not subresource and resource.group_resource == PODS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Set the policies."""
        if obj is None or not _has_new_image(obj, old):
            return
        for _, container in each_container(obj["spec"], "spec"):
            container["imagePullPolicy"] = ALWAYS
        for volume in obj["spec"].get("volumes") or ():
            if volume.get("image") is not None:
                volume["image"]["pullPolicy"] = ALWAYS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse what another plug-in has set."""
        if obj is None or not _has_new_image(obj, old):
            return
        texts = list(dict.fromkeys(str(refusal(write, obj, str(error))) for error in _other_policies(obj["spec"])))
        if texts:
            raise PlainError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _other_policies(spec: Object) -> Iterator[FieldError]:
    for path, container in each_container(spec, "spec"):
        if container.get("imagePullPolicy") != ALWAYS:
            yield not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), (ALWAYS,))
    for index, volume in enumerate(spec.get("volumes") or ()):
        image = volume.get("image")
        if image is not None and image.get("pullPolicy") != ALWAYS:
            yield not_supported(f"spec.volumes[{index}].image.pullPolicy", image.get("pullPolicy", ""), (ALWAYS,))


def _has_new_image(obj: Object, old: Object | None) -> bool:
    if old is None:
        return True
    known = {container.get("image") for _, container in each_container(old["spec"], "spec")}
    return any(container.get("image") not in known for _, container in each_container(obj["spec"], "spec"))
