"""One command: servers in a folder of their own, one after the other; requests from the grammar or from a reproducer."""

import dataclasses
import time

from live_server import LiveServer

from .driver import MIB, Bounds, Drive, hubs_of
from .grammar import Grammar
from .minimise import Minimiser, guesses, load, save


class Session:
    """Runs, replays and minimises as the settings of the command say."""

    def __init__(self, folder, settings, server=LiveServer):
        self._folder = folder
        self._settings = settings
        self._server = server
        self._count = 0
        self._grammar = Grammar(settings.seed, tuple(filter(None, settings.kinds.split(","))))
        self._hubs = {kind.hub for kind in self._grammar.kinds if kind.stored}
        self._bounds = Bounds(
            stall=settings.stall / 1000,
            memory=settings.memory * MIB,
            clients=settings.clients,
            findings=settings.findings,
            compare=settings.compare,
            is_durable=settings.storage != "memory",
        )

    async def fuzz(self):
        """Send the requests of the grammar until time is up."""
        return await self._drive(self._generated(), self._bounds)

    async def replay(self, path):
        """Send the requests of a reproducer."""
        requests, clients = load(path)
        return await self._drive(enumerate(requests), dataclasses.replace(self._bounds, clients=clients))

    async def write_reproducer(self, finding, sent):
        """Minimise a failure; the path of the reproducer, or None if the failure did not happen again."""
        requests = await self._minimised(finding, max(finding.numbers, default=sent - 1))
        if requests is None:
            return None
        number = max(finding.numbers, default=sent)
        path = self._settings.dir / f"fuzz-{finding.category.replace(' ', '-')}-{self._settings.seed}-{number}.json"
        save(path, finding, requests, self._settings.seed, 1)
        return path

    async def _drive(self, requests, bounds):
        """Run numbered requests against a new server."""
        with self._new_server() as server:
            return await Drive(server, bounds, self._hubs).run(requests)

    def _new_server(self):
        self._count += 1
        return self._server(self._folder / str(self._count), "--storage", self._settings.storage, controllers="*")

    def _generated(self):
        until = time.monotonic() + self._settings.seconds
        for number in range(self._settings.requests):
            if time.monotonic() > until:
                return
            yield number, self._grammar.request(number)

    async def _minimised(self, finding, last):
        """The smallest requests that fail in the same way on a fresh server.

        Trials share a server, which is emptied after each: a hundred times as fast as starting one. What was left behind all the same
        may mislead them; so the result is tried on a fresh server, and if it does not fail there, all is done again on fresh ones.
        """
        bounds = dataclasses.replace(
            self._bounds, clients=1, findings=4, is_compared=finding.category in ("lost write", "exit")
        )

        async def fails(wanted):
            drive = await self._drive(enumerate(wanted), bounds)
            return any(finding.is_same(other) for other in drive.findings)

        if finding.category not in ("exit", "memory"):
            async with SharedServer(self._new_server(), dataclasses.replace(bounds, is_durable=False)) as shared:

                async def fails_there(wanted):
                    return any(finding.is_same(other) for other in await shared.findings(wanted))

                found = await self._minimise(fails_there, finding, last)
            if found and await fails(found):
                return found
        return await self._minimise(fails, finding, last)

    async def _minimise(self, fails, finding, last):
        minimiser = Minimiser(fails, self._settings.minimise_seconds, self._settings.shrink_seconds)
        return await minimiser.minimise(guesses(self._grammar.request, finding.numbers, last))


class SharedServer:
    """A server for many trials: the objects of one are deleted before the next."""

    def __init__(self, server, bounds):
        self._server = server
        self._bounds = bounds

    async def __aenter__(self):
        self._server.start()
        return self

    async def __aexit__(self, *_):
        self._server.__exit__()

    async def findings(self, requests):
        """What a sequence of requests gives."""
        drive = await Drive(self._server, self._bounds, hubs_of(requests)).run(enumerate(requests))
        if self._server.process.poll() is None:
            await drive.clean()
        else:
            self._server.start()
        return drive.findings
