"""Caches that follow an API server: list once, watch for ever, read from memory.

In reading order: `cached` is one object in the cache, `source` lists and watches a collection, `watchevents` parses its
events, `states` and `reflector` are the state machine that follows a source, `namespaces` follows several namespaces as
one, `fifo` is the in-order FIFO, `indexer` and `lister` hold the objects and find them, `handlers` are the event
handlers, `informer` is the shared informer, `factory` shares informers, and `metrics` are their Prometheus metrics. The
guarantees are written above `SharedInformer`.

    async with SharedInformerFactory(rest) as factory:
        pods = factory.informer(Pod, namespace="default")
        pods.add_handler(Handlers(on_add=lambda pod: print(pod.metadata.name)))
        await factory.wait_for_sync(timeout=30)
        pods.lister.list(labels="app=web")
"""

from kapi.client.metadata import PartialObjectMetadata
from kapi.informer.cached import Cached, without_managed_fields
from kapi.informer.factory import SharedInformerFactory
from kapi.informer.handlers import Handler, Handlers, Registration
from kapi.informer.indexer import Indexer, IndexFunction, by_label, by_namespace, by_owner_uid
from kapi.informer.informer import SharedInformer
from kapi.informer.lister import CachedLister, Lister, NamespaceLister
from kapi.informer.reflector import Pace, Reflector
from kapi.informer.source import ListerWatcher, Page, RESTSource

__all__ = [
    "Cached",
    "CachedLister",
    "Handler",
    "Handlers",
    "IndexFunction",
    "Indexer",
    "Lister",
    "ListerWatcher",
    "NamespaceLister",
    "Pace",
    "Page",
    "PartialObjectMetadata",
    "RESTSource",
    "Reflector",
    "Registration",
    "SharedInformer",
    "SharedInformerFactory",
    "by_label",
    "by_namespace",
    "by_owner_uid",
    "without_managed_fields",
]
