"""Fair queues: hands of queues, turns by work, and what a flood does to others."""

import asyncio
import random

from kapi.server.flowcontrol.classify import Flow
from kapi.server.flowcontrol.fairqueue import REMEMBERED_QUEUES, FairQueues, hand_of


def flow(name):
    return Flow("s", "l", name)


def test_a_hand_is_distinct_queues_and_always_the_same():
    hands = {hand_of("s", f"user-{n}", 64, 6) for n in range(1000)}
    assert all(len(set(hand)) == 6 and set(hand) <= set(range(64)) for hand in hands)
    assert len(hands) > 990
    assert hand_of("s", "user-1", 64, 6) == hand_of("s", "user-1", 64, 6)
    used = [index for hand in hands for index in hand]
    # Every queue is in about as many hands as any other.
    assert max(map(used.count, range(64))) < 2 * min(map(used.count, range(64)))
    assert hand_of("s", "x", 3, 8) in {(a, b, 3 - a - b) for a in range(3) for b in range(3) if a != b}


def turns(queues, seconds, number):
    """Run requests one after the other, each for so long; the flows in the order of their turns."""
    order = []
    while len(order) < number and (request := queues.head()) is not None:
        queues.take(request)
        order.append(request.flow.distinguisher)
        queues.finish(request, seconds(request))
    return order


def in_loop(test):
    def runner():
        async def main():
            test(asyncio.get_running_loop().create_future)

        asyncio.run(main())

    runner.__name__ = test.__name__
    return runner


@in_loop
def test_flows_take_turns_whatever_their_number_of_requests(future):
    queues = FairQueues(64, 1, 1000)
    for _ in range(500):
        queues.enqueue(flow("elephant"), 1, future(), 0)
    for _ in range(20):
        queues.enqueue(flow("mouse"), 1, future(), 0)
    first = turns(queues, lambda request: 0.01, 40)
    assert first.count("mouse") == 20


@in_loop
def test_turns_are_by_work_and_not_by_number(future):
    queues = FairQueues(64, 1, 1000)
    for _ in range(500):
        queues.enqueue(flow("slow"), 1, future(), 0)
        queues.enqueue(flow("fast"), 1, future(), 0)
    order = turns(queues, lambda request: 0.4 if request.flow.distinguisher == "slow" else 0.1, 500)
    assert 3.5 < order.count("fast") / order.count("slow") < 4.5


@in_loop
def test_a_wide_request_is_as_much_work_as_several(future):
    queues = FairQueues(64, 1, 1000)
    for _ in range(500):
        queues.enqueue(flow("wide"), 5, future(), 0)
        queues.enqueue(flow("narrow"), 1, future(), 0)
    order = turns(queues, lambda request: 0.1, 300)
    assert 4.5 < order.count("narrow") / order.count("wide") < 5.5


@in_loop
def test_a_queue_gets_no_credit_for_the_time_it_was_idle(future):
    queues = FairQueues(64, 1, 1000)
    for _ in range(1000):
        queues.enqueue(flow("busy"), 1, future(), 0)
    turns(queues, lambda request: 1.0, 500)
    for _ in range(100):
        queues.enqueue(flow("late"), 1, future(), 0)
    order = turns(queues, lambda request: 1.0, 100)
    assert 45 <= order.count("late") <= 55


@in_loop
def test_a_flow_can_fill_its_hand_only(future):
    queues = FairQueues(128, 6, 50)
    accepted = sum(queues.enqueue(flow("flood"), 1, future(), 0) is not None for _ in range(10_000))
    assert accepted == 6 * 50
    others = [queues.enqueue(flow(f"user-{n}"), 1, future(), 0) for n in range(1000)]
    assert None not in others


@in_loop
def test_what_waits_no_longer_has_no_turn(future):
    source = random.Random(1)
    queues = FairQueues(8, 2, 1000)
    requests = [queues.enqueue(flow(f"u{source.randrange(20)}"), source.randint(1, 5), future(), 0) for _ in range(500)]
    gone = set(source.sample(range(500), 200))
    for index in gone:
        queues.remove(requests[index])
        queues.remove(requests[index])
    assert queues.length == 300
    left = {id(request) for index, request in enumerate(requests) if index not in gone}
    seen = set()
    while (request := queues.head()) is not None:
        queues.take(request)
        queues.finish(request, 0.01)
        seen.add(id(request))
    assert seen == left
    assert queues.length == 0
    assert all(queue.seats_waiting == queue.seats_in_use == queue.executing == 0 for queue in queues.queues.values())


@in_loop
def test_ten_million_queues_cost_what_is_used_of_them(future):
    queues = FairQueues(10_000_000, 2, 50)
    for number in range(3000):
        assert queues.enqueue(flow(f"user-{number}"), 1, future(), 0) is not None
    assert 2900 < len(queues.queues) <= 3000
    assert len(turns(queues, lambda request: 0.01, 3000)) == 3000
    assert (queues.length, queues.queues) == (0, {})
    # While some requests of one flow wait all the time, the idle queues of others are deleted now and then.
    for _ in range(10):
        queues.enqueue(flow("one"), 1, future(), 0)
    for number in range(5000):
        queues.enqueue(flow("one"), 1, future(), 0)
        queues.enqueue(flow(f"user-{number}"), 1, future(), 0)
        turns(queues, lambda request: 0.01, 2)
    assert queues.length == 10
    assert len(queues.queues) <= 2 * REMEMBERED_QUEUES
