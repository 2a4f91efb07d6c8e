"""The manager of an operator: caches, controllers, leader election, metrics and probes, started and stopped together.

`manager` runs the others, `cachedclient` reads from the caches, `ownwrites` lays its writes over them, `leaderelection`
holds the Lease, `shutdown` stops what runs.
"""

from kapi.controller.manager.manager import Leadership, LeadershipLost, Manager

__all__ = ["Leadership", "LeadershipLost", "Manager"]
