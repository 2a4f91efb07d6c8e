"""Long bodies that arrive at the same time are read a bounded number of bytes in each turn of the event loop."""

import asyncio
from collections import Counter

from kapi.api.user import User
from kapi.server.transport import readturns
from kapi.server.transport.message import Response
from kapi.server.transport.readturns import TURN_BYTES, TURN_READS, ReadTurns
from kapi.server.transport.serve import Server

READ = 256 * 1024


class Sender:
    """A connection that always has something to be read."""

    def __init__(self, turns, number, log):
        self.number = number
        self.reads = 0
        self.is_paused = False
        self._turns = turns
        self._log = log

    def read(self):
        if not self.is_paused and self.reads < 8:
            self.reads += 1
            self._log.append(self.number)
            self.is_paused = self._turns.count(self, READ)

    def read_again(self):
        self.is_paused = False


def test_many_senders_take_turns_and_each_turn_reads_a_bounded_number_of_bytes():
    async def main():
        turns, log = ReadTurns(), []
        senders = [Sender(turns, number, log) for number in range(64)]
        amounts = []
        while any(sender.reads < 8 for sender in senders):
            before = len(log)
            for sender in senders:
                sender.read()
            amounts.append((len(log) - before) * READ)
            await asyncio.sleep(0)
        return amounts, log

    amounts, log = asyncio.run(main())
    # In the first turn all are ready: nothing is known of a socket before it is read once.
    assert amounts[0] == 64 * READ
    assert max(amounts[1:]) <= TURN_BYTES + TURN_READS * READ
    assert set(Counter(log).values()) == {8}
    again = [number for number in log[64:] if number >= TURN_BYTES // READ]
    assert again[:TURN_READS] == list(range(4, 4 + TURN_READS)), "not in the order in which they were paused"


def test_few_senders_are_never_paused():
    async def main():
        turns, log = ReadTurns(), []
        senders = [Sender(turns, number, log) for number in range(2)]
        for _ in range(8):
            for sender in senders:
                sender.read()
                assert not sender.is_paused
            await asyncio.sleep(0)

    asyncio.run(main())


def test_bodies_that_wait_for_their_turn_arrive_whole(monkeypatch):
    """Every read is one too many, so that every connection waits after each of its reads."""
    monkeypatch.setattr(readturns, "TURN_BYTES", 1)
    monkeypatch.setattr(readturns, "TURN_READS", 1)
    pauses = Counter()
    count = ReadTurns.count

    def counted(self, connection, size):
        pauses[connection] += 1
        return count(self, connection, size)

    monkeypatch.setattr(ReadTurns, "count", counted)

    async def handle(request):
        if request.arrival is not None:
            await request.arrival.wait(User("u"))
        return Response(200, [], b"%d" % len(request.body))

    async def send(port, size):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
        writer.write(b"x" * size)
        answer = await reader.read()
        writer.close()
        return int(answer.rpartition(b"\r\n\r\n")[2])

    async def main():
        server = Server(handle, host="127.0.0.1")
        await server.start()
        try:
            return await asyncio.gather(*(send(server.port, 1_000_000 + number) for number in range(8)))
        finally:
            await server.close()

    assert asyncio.run(main()) == [1_000_000 + number for number in range(8)]
    assert len(pauses) == 8
