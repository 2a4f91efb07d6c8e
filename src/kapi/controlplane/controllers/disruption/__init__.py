"""Disruption budgets: how many of the Pods that belong together may be taken away now."""

from kapi.controlplane.controllers.disruption.controller import count_disruptions

__all__ = ["count_disruptions"]
