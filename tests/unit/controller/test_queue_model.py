"""The work queue against a model of its promises: whatever is done to it, in whatever order, the two agree."""

import asyncio
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from queue_model import Model

from kapi.controller.queue import DelayingQueue, QueueShutDown
from virtual_time import LoopClock, VirtualLoop, run

pytestmark = pytest.mark.slow

KEYS = st.sampled_from("abcde")
PRIORITIES = st.sampled_from([-100, 0, 0, 0, 7])
WALK_STEPS = 1_000_000


class QueueMachine(RuleBasedStateMachine):
    """Several workers, each with a task that waits in `get`; the loop runs until nothing moves after every step."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.loop = self.runner.get_loop()
        self.queue = DelayingQueue("model", clock=LoopClock())
        self.model = Model()
        self.waiting = []
        self.drain = None

    def run_pending(self):
        async def quiet():
            for _ in range(5):
                await asyncio.sleep(0)

        self.runner.run(quiet())

    def call(self, function, *args, **kwargs):
        async def inside():
            function(*args, **kwargs)

        self.runner.run(inside())

    def agree(self):
        """Every task that returned got what the model hands out next, in the order the tasks have been waiting."""
        self.run_pending()
        finished = [task for task in self.waiting if task.done()]
        self.waiting = [task for task in self.waiting if not task.done()]
        taken, ended = set(), 0
        for task in finished:
            if isinstance(task.exception(), QueueShutDown):
                ended += 1
            else:
                taken.add(task.result())
        expected = set()
        for _ in range(len(taken)):
            expected.add(self.model.take())
        assert taken == expected
        if ended:
            assert self.model.closed
        if self.waiting:
            assert not self.model.ready()
            assert not self.model.closed

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key, priority):
        self.call(self.queue.add, key, priority=priority)
        self.model.add(key, priority)
        self.agree()

    @rule(key=KEYS, delay=st.integers(1, 20), priority=PRIORITIES)
    def add_after(self, key, delay, priority):
        self.call(self.queue.add_after, key, float(delay), priority=priority)
        self.model.add_after(key, self.loop.now + delay, priority)
        self.agree()

    @rule(seconds=st.integers(0, 15))
    def let_time_pass(self, seconds):
        # Half a second off, so that no timer is due at the very instant at which we look.
        target = self.loop.now + seconds + 0.5
        # A worker that waits takes what comes first, whatever comes later: so the two are compared at each coming.
        for due in self.model.times():
            if due <= target:
                self.move_to(due)
        self.move_to(target)

    def move_to(self, target):
        async def pass_time():
            await asyncio.sleep(target - asyncio.get_running_loop().time())

        self.runner.run(pass_time())
        self.model.now_is(self.loop.now)
        self.agree()

    @precondition(lambda self: len(self.waiting) < 3)
    @rule()
    def get(self):
        self.waiting.append(self.loop.create_task(self.queue.get_with_priority()))
        self.agree()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), key=KEYS)
    def cancel_a_worker_just_as_a_key_arrives(self, data, key):
        worker = data.draw(st.sampled_from(self.waiting))
        self.call(lambda: (self.queue.add(key), worker.cancel()))
        self.waiting.remove(worker)
        self.model.add(key)
        self.agree()
        assert worker.cancelled()

    @precondition(lambda self: self.model.held())
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.model.held())))
        self.call(self.queue.done, key)
        self.model.done(key)
        self.agree()

    @rule(key=KEYS)
    def done_with_a_key_nobody_has(self, key):
        if key not in self.model.held():
            with pytest.raises(ValueError, match="no worker"):
                self.queue.done(key)

    @precondition(lambda self: self.drain is None)
    @rule()
    def shut_down_with_drain(self):
        self.drain = self.loop.create_task(self.queue.shut_down_with_drain())
        self.run_pending()
        self.model.close()
        self.agree()

    @rule()
    def shut_down(self):
        if not self.model.closed and len(self.model.records) < 5:
            return  # else most runs would be over before anything happened
        self.call(self.queue.shut_down)
        self.model.close()
        self.agree()
        assert self.drain is None or self.drain.done()

    @invariant()
    def lengths_agree(self):
        assert len(self.queue) == len(self.model.ready())
        assert self.queue.is_shutting_down == self.model.closed

    @invariant()
    def a_drain_ends_when_all_work_is_done(self):
        if self.drain is not None and self.model.idle():
            assert self.drain.done()

    def teardown(self):
        self.call(self.queue.shut_down)
        self.run_pending()
        for task in self.waiting:
            with pytest.raises(QueueShutDown):
                self.runner.run(_result(task))
        self.runner.close()


async def _result(task):
    return await task


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


async def walk(steps, seed, keys):
    """Random steps on a queue and on the model; returns how often each kind of step was taken."""
    dice = random.Random(seed)
    clock = LoopClock()
    queue, model = DelayingQueue("walk", clock=clock), Model()
    counts = dict.fromkeys(("add", "get", "done", "later", "time"), 0)
    names = [f"key-{number}" for number in range(keys)]
    priorities = [0] * 8 + [-100, 5]
    held = []
    for step in range(steps):
        roll = dice.random()
        if roll < 0.44:
            key, priority = dice.choice(names), dice.choice(priorities)
            queue.add(key, priority=priority)
            model.add(key, priority)
            counts["add"] += 1
        elif roll < 0.70 and len(queue):
            taken = await queue.get_with_priority()
            assert taken == model.take(), f"seed {seed}, step {step}"
            held.append(taken[0])
            counts["get"] += 1
        elif roll < 0.96 and held:
            key = held.pop(dice.randrange(len(held)))
            queue.done(key)
            model.done(key)
            counts["done"] += 1
        elif roll < 0.98:
            key, delay = dice.choice(names), dice.randrange(1, 40)
            queue.add_after(key, float(delay))
            model.add_after(key, clock.monotonic() + delay)
            counts["later"] += 1
        else:
            await asyncio.sleep(dice.randrange(20) + 0.5)
            model.now_is(clock.monotonic())
            counts["time"] += 1
        if not step % 97:
            assert len(queue) == len(model.ready()), f"seed {seed}, step {step}"
    queue.shut_down()
    model.close()
    while (expected := model.take()) is not None:
        assert await queue.get_with_priority() == expected
    with pytest.raises(QueueShutDown):
        await queue.get()
    return counts


def test_the_queue_agrees_with_the_model_over_a_million_steps():
    seed = random.SystemRandom().randrange(2**32)
    counts = run(walk(WALK_STEPS, seed, keys=12))
    assert sum(counts.values()) == WALK_STEPS
    # A walk that got stuck in one corner would prove little.
    assert min(counts["add"], counts["get"], counts["done"]) > WALK_STEPS // 10
    assert min(counts["later"], counts["time"]) > WALK_STEPS // 200


def test_the_walk_catches_a_queue_that_hands_a_key_to_two_workers(monkeypatch):
    original = DelayingQueue.add

    def careless(self, key, *, priority=0):
        self._processing.discard(key)
        original(self, key, priority=priority)

    monkeypatch.setattr(DelayingQueue, "add", careless)
    with pytest.raises((AssertionError, ValueError)):
        run(walk(5_000, 1, keys=4))


def test_the_walk_catches_a_queue_that_loses_keys_added_during_work(monkeypatch):
    original = DelayingQueue.add

    def forgetful(self, key, *, priority=0):
        if key not in self._processing:
            original(self, key, priority=priority)

    monkeypatch.setattr(DelayingQueue, "add", forgetful)
    with pytest.raises(AssertionError):
        run(walk(5_000, 1, keys=4))
