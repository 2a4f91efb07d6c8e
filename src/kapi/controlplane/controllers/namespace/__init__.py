"""The end of namespaces: a namespace that is deleted is emptied, says what holds it up, and goes when it is empty."""

from kapi.controlplane.controllers.namespace.emptying import empty_namespaces

__all__ = ["empty_namespaces"]
