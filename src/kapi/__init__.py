"""The Kubernetes programming model in Python: a control plane you can install with pip, and a controller framework.

The names here are what authors of operators need; each is imported when it is first used, so that `import kapi` costs
nothing. They are stable: a test freezes `__all__`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kapi.base.version import VERSION

if TYPE_CHECKING:
    from kapi.api.access import is_deleting as is_deleting
    from kapi.api.builtin.meta_v1 import ObjectMeta as ObjectMeta
    from kapi.api.crd import Column as Column
    from kapi.api.crd import CustomResource as CustomResource
    from kapi.api.crd import ListMap as ListMap
    from kapi.api.crd import Model as Model
    from kapi.api.crd import Rule as Rule
    from kapi.api.crd import Scale as Scale
    from kapi.api.crd import definition as definition
    from kapi.api.crd import resource as resource
    from kapi.api.errors import AlreadyExists as AlreadyExists
    from kapi.api.errors import ApiError as ApiError
    from kapi.api.errors import Conflict as Conflict
    from kapi.api.errors import NotFound as NotFound
    from kapi.api.keys import ObjectKey as ObjectKey
    from kapi.client.client import Client as Client
    from kapi.client.config import ClientConfig as ClientConfig
    from kapi.controller.manager import Leadership as Leadership
    from kapi.controller.manager import Manager as Manager
    from kapi.controller.objects.conditions import set_condition as set_condition
    from kapi.controller.objects.finalizer import ensure_finalizer as ensure_finalizer
    from kapi.controller.objects.finalizer import remove_finalizer as remove_finalizer
    from kapi.controller.objects.finalizers import Finalizers as Finalizers
    from kapi.controller.objects.ownership import set_controller_reference as set_controller_reference
    from kapi.controller.objects.ownership import set_owner_reference as set_owner_reference
    from kapi.controller.program import run as run
    from kapi.controller.reconcile import Reconciler as Reconciler
    from kapi.controller.reconcile import Request as Request
    from kapi.controller.reconcile import Result as Result
    from kapi.controller.reconcile import TerminalError as TerminalError
    from kapi.controller.recorder import EventRecorder as EventRecorder
    from kapi.informer.factory import CacheOptions as CacheOptions
    from kapi.informer.factory import SharedInformerFactory as SharedInformerFactory

__version__ = VERSION

_HOMES = {
    "AlreadyExists": "kapi.api.errors",
    "ApiError": "kapi.api.errors",
    "CacheOptions": "kapi.informer.factory",
    "Client": "kapi.client.client",
    "ClientConfig": "kapi.client.config",
    "Column": "kapi.api.crd",
    "Conflict": "kapi.api.errors",
    "CustomResource": "kapi.api.crd",
    "EventRecorder": "kapi.controller.recorder",
    "Finalizers": "kapi.controller.objects.finalizers",
    "Leadership": "kapi.controller.manager",
    "ListMap": "kapi.api.crd",
    "Manager": "kapi.controller.manager",
    "Model": "kapi.api.crd",
    "NotFound": "kapi.api.errors",
    "ObjectKey": "kapi.api.keys",
    "ObjectMeta": "kapi.api.builtin.meta_v1",
    "Reconciler": "kapi.controller.reconcile",
    "Request": "kapi.controller.reconcile",
    "Result": "kapi.controller.reconcile",
    "Rule": "kapi.api.crd",
    "Scale": "kapi.api.crd",
    "SharedInformerFactory": "kapi.informer.factory",
    "TerminalError": "kapi.controller.reconcile",
    "definition": "kapi.api.crd",
    "ensure_finalizer": "kapi.controller.objects.finalizer",
    "is_deleting": "kapi.api.access",
    "remove_finalizer": "kapi.controller.objects.finalizer",
    "resource": "kapi.api.crd",
    "run": "kapi.controller.program",
    "set_condition": "kapi.controller.objects.conditions",
    "set_controller_reference": "kapi.controller.objects.ownership",
    "set_owner_reference": "kapi.controller.objects.ownership",
}

__all__ = [
    "AlreadyExists",
    "ApiError",
    "CacheOptions",
    "Client",
    "ClientConfig",
    "Column",
    "Conflict",
    "CustomResource",
    "EventRecorder",
    "Finalizers",
    "Leadership",
    "ListMap",
    "Manager",
    "Model",
    "NotFound",
    "ObjectKey",
    "ObjectMeta",
    "Reconciler",
    "Request",
    "Result",
    "Rule",
    "Scale",
    "SharedInformerFactory",
    "TerminalError",
    "__version__",
    "definition",
    "ensure_finalizer",
    "is_deleting",
    "remove_finalizer",
    "resource",
    "run",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kapi' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
