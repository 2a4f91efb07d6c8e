"""The longest turn of an event loop, in CPU time: the delay that one piece of work causes to every other client.

CPU time of the process and not the time of the wall, so that a busy machine does not change the figure; of the process
and not of the loop's thread, so that work in another thread that holds the interpreter's lock counts as well.
"""

import asyncio
import contextlib
import time


class Turns:
    """What was measured so far."""

    def __init__(self):
        self.longest = 0.0
        """CPU seconds of the longest turn."""
        self.count = 0

    async def measure(self):
        while True:
            before = time.process_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.process_time() - before)
            self.count += 1


@contextlib.asynccontextmanager
async def loop_turns():
    """Measure every turn of the running loop; the loop does not rest meanwhile.

    async with loop_turns() as turns:
        await something
    assert turns.longest < 0.1
    """
    turns = Turns()
    task = asyncio.ensure_future(turns.measure())
    await asyncio.sleep(0)
    try:
        yield turns
        # The turn in which the measured work ended is measured as well.
        await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
