"""kopf: a handler of events, and an index, which is its view of what there is."""

from typing import Any

import kopf

import report


@kopf.index("configmaps")
def versions(name: str, meta: kopf.Meta, **_: Any) -> dict[str, str]:
    return {name: meta["resourceVersion"]}


@kopf.on.startup()
def show(versions: kopf.Index[str, str], **_: Any) -> None:
    report.show(lambda: {name: list(found)[-1] for name, found in versions.items()})


@kopf.on.event("configmaps")
def report_event(event: kopf.RawEvent, name: str, meta: kopf.Meta, **_: Any) -> None:
    report.heard(event["type"] or "ADDED", name, meta["resourceVersion"])


kopf.run(standalone=True, clusterwide=True)
