"""Quotas: how much of what it may use a namespace does use."""

from kapi.controlplane.housekeeping.quota.controller import count_quotas

__all__ = ["count_quotas"]
