"""Which parts of housekeeping run: the names, and what `--controllers` says of them.

The names are those of Kubernetes' controller manager, with the short ones it had before; ours have names of their own.
"""

from __future__ import annotations

from typing import Final

from kapi.controlplane.options import OptionError

NAMES: Final = {
    "garbage-collector-controller": ("garbagecollector",),
    "namespace-controller": ("namespace",),
    "serviceaccount-controller": ("serviceaccount",),
    "root-ca-certificate-publisher-controller": ("root-ca-cert-publisher",),
    "serviceaccount-token-controller": ("serviceaccount-token",),
    "resourcequota-controller": ("resourcequota",),
    "ttl-after-finished-controller": ("ttl-after-finished",),
    "event-expiry-controller": (),
    "endpoints-controller": ("endpoint",),
    "endpointslice-controller": ("endpointslice",),
    "endpointslice-mirroring-controller": ("endpointslicemirroring",),
    "persistentvolumeclaim-protection-controller": ("pvc-protection",),
    "persistentvolume-protection-controller": ("pv-protection",),
    "volumeattributesclass-protection-controller": (),
    "disruption-controller": ("disruption",),
    "pod-garbage-collector-controller": ("podgc",),
}
"""Every controller, with the other names it goes by."""

_CANONICAL: Final = {alias: name for name, aliases in NAMES.items() for alias in (name, *aliases)}


def select(text: str) -> frozenset[str]:
    """The controllers that `--controllers` asks for.

    `*` stands for all, `name` switches one on, `-name` off; of two words about one controller the first counts. Where
    only `-name` is said, all others run.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    said: dict[str, bool] = {}
    for word in words:
        if word == "*":
            continue
        asked = word.removeprefix("-")
        name = _CANONICAL.get(asked)
        if name is None:
            raise OptionError(f"--controllers: there is no controller {asked!r}; there are {', '.join(sorted(NAMES))}")
        said.setdefault(name, not word.startswith("-"))
    others = "*" in words or not any(said.values())
    return frozenset(name for name in NAMES if said.get(name, others))
