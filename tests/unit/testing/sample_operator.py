"""A small operator, to be tested: for each Site there is a ConfigMap with its title, and the status says so."""

from kapi import (
    CustomResource,
    Model,
    Request,
    Result,
    ensure_finalizer,
    is_deleting,
    remove_finalizer,
    resource,
    set_controller_reference,
)
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.builtin.meta_v1 import ObjectMeta

FINALIZER = "sites.example.com/pages"


class SiteSpec(Model):
    title: str
    refresh_seconds: int = 0


class SiteStatus(Model):
    title: str = ""
    updates: int = 0


@resource("example.com/v1")
class Site(CustomResource, kw_only=True):
    spec: SiteSpec
    status: SiteStatus | None = None


def site(name, namespace="default", title="hello", **spec):
    return Site(metadata=ObjectMeta(name=name, namespace=namespace), spec=SiteSpec(title=title, **spec))


class SiteReconciler:
    """`pages` stands for something outside of the cluster, which has to be deleted with the Site."""

    def __init__(self, client):
        self.client = client
        self.pages = {}

    async def reconcile(self, request: Request) -> Result | None:
        found = await self.client.find(Site, request)
        if found is None:
            return None
        if is_deleting(found):
            self.pages.pop(request, None)
            await remove_finalizer(self.client, found, FINALIZER)
            return None
        await ensure_finalizer(self.client, found, FINALIZER)
        self.pages[request] = found.spec.title
        page = ConfigMap(
            metadata=ObjectMeta(name=request.name, namespace=request.namespace), data={"title": found.spec.title}
        )
        set_controller_reference(found, page)
        await self.client.apply(page, field_manager="sites", force=True)
        if found.status is None or found.status.title != found.spec.title:
            await self.client.patch_status(found, {"status": {"title": found.spec.title}})
        return Result(requeue_after=found.spec.refresh_seconds)


def sites(manager, *, workers=1, reconciler=SiteReconciler):
    """Add the controller to a manager; returns the reconciler."""
    made = reconciler(manager.client)
    manager.builder().for_(Site).owns(ConfigMap).with_options(workers=workers).complete(made)
    return made
