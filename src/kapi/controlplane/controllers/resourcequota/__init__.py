"""Quotas: how much of what it may use a namespace does use."""

from kapi.controlplane.controllers.resourcequota.controller import count_quotas

__all__ = ["count_quotas"]
