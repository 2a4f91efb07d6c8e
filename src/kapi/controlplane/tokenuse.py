"""The last use of tokens in Secrets, as a label: `kubernetes.io/legacy-token-last-used`, a date.

Such tokens do not expire. The label tells which of them can be deleted. It is written once a day at most.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Final

import structlog

from kapi.api.patch.mergepatch import MERGE_PATCH
from kapi.codec import json
from kapi.controlplane.bootstrap import SYSTEM_NAMESPACE, ensure_object, send

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.server.transport.inprocess import InProcessTransport

LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
TRACKING_CONFIG: Final = "kube-apiserver-legacy-service-account-token-tracking"
SINCE: Final = "since"
MAX_WRITES: Final = 16
"""Labels that are written at a time; the use of more tokens is noted when they are used again."""

_DATE: Final = "%Y-%m-%d"

_log = structlog.get_logger("kapi.controlplane")


async def publish_tracking(transport: InProcessTransport, now: dt.datetime) -> None:
    """Ensure the ConfigMap that tells since when the use of tokens is noted; controllers delete unused ones by it."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
    data = {SINCE: now.strftime(_DATE)}
    found = await ensure_object(transport, path, {"metadata": {"name": TRACKING_CONFIG}, "data": data})
    if found is not None and not _is_date((found.get("data") or {}).get(SINCE)):
        await send(transport, "PATCH", f"{path}/{TRACKING_CONFIG}", {"data": data}, MERGE_PATCH)


def _is_date(text: object) -> bool:
    try:
        return dt.datetime.strptime(str(text), _DATE).strftime(_DATE) == text  # noqa: DTZ007 (a date has no zone)
    except ValueError:
        return False


class TokenUse:
    """Labels the Secrets of tokens that are used, once it has a transport."""

    def __init__(self, clock: Clock) -> None:
        self.transport: InProcessTransport | None = None
        self._clock = clock
        self._writes: dict[str, asyncio.Task[None]] = {}

    def note(self, secret: Object) -> None:
        """Note that the token of a Secret is used now; does not wait."""
        metadata, now = secret["metadata"], self._clock.now()
        # Another server's clock may be ahead.
        days = [(now + dt.timedelta(days=ahead)).strftime(_DATE) for ahead in (0, 1)]
        if (metadata.get("labels") or {}).get(LAST_USED) in days:
            return
        uid = metadata["uid"]
        if self.transport is None or uid in self._writes or len(self._writes) >= MAX_WRITES:
            return
        self._writes[uid] = task = asyncio.ensure_future(self._label(self.transport, metadata, days[0]))
        task.add_done_callback(lambda _: self._writes.pop(uid, None))

    async def written(self) -> None:
        """Wait until no label is being written."""
        while self._writes:
            await asyncio.wait(list(self._writes.values()))

    @staticmethod
    async def _label(transport: InProcessTransport, metadata: Object, day: str) -> None:
        path = f"/api/v1/namespaces/{metadata['namespace']}/secrets/{metadata['name']}"
        patch = json.encode({"metadata": {"uid": metadata["uid"], "labels": {LAST_USED: day}}})
        headers = {"content-type": MERGE_PATCH, "user-agent": "kube-apiserver"}
        answer = await transport.request("PATCH", path, headers, patch)
        if answer.status not in (200, 404, 409):
            _log.warning("the last use of a token cannot be noted", secret=path, status=answer.status)
