"""An API server in thirty lines: the time in some places, as a resource. `kubectl get clocks` prints it."""

import datetime as dt
import sys
from collections.abc import Sequence

from kapi import ObjectMeta
from kapi.apiserver import ApiServer, Column, CustomResource, ListOptions, Request, Resource, resource

OFFSETS = {"delhi": 5.5, "tokyo": 9.0, "utc": 0.0}


@resource(
    "time.example.com/v1", scope="Cluster", columns=[Column("Offset", ".offset", "number"), Column("Time", ".time")]
)
class Clock(CustomResource):
    """The time in one place."""

    offset: float
    time: str


class Clocks(Resource[Clock]):
    async def get(self, request: Request, name: str) -> Clock | None:
        offset = OFFSETS.get(name)
        if offset is None:
            return None
        now = dt.datetime.now(dt.timezone(dt.timedelta(hours=offset)))
        return Clock(metadata=ObjectMeta(name=name), offset=offset, time=f"{now:%H:%M}")

    async def list(self, request: Request, options: ListOptions) -> Sequence[Clock]:
        found = [await self.get(request, name) for name in OFFSETS]
        return [clock for clock in found if clock is not None]


if __name__ == "__main__":
    sys.exit(ApiServer(Clocks(Clock), port=8001).run())
