"""kopf: an event handler keeps each object and reconciles it. Settings are kopf's own.

It has an in-memory index too; with 10,000 objects in that, the bench gave up waiting after three minutes.
"""

from __future__ import annotations

from typing import Any

import kopf
from tally import NAMESPACE, STAMP, Tally

tally = Tally()
pods: dict[str, Any] = {}


@kopf.on.login()
def login(**kwargs: Any) -> Any:
    """Log in with the kubeconfig."""
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.event("pods")
def reconcile(name: str, body: Any, annotations: Any, **_: Any) -> None:
    """Keep it, and reconcile it."""
    is_new = name not in pods
    pods[name] = dict(body)
    if is_new and len(pods) == tally.objects:
        tally.synced()
    tally.reconciled(name, annotations[STAMP])


tally.wait_for_start()
kopf.configure(verbose=False, quiet=True)
kopf.run(namespaces=[NAMESPACE], standalone=True)
