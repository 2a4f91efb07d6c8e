import asyncio
import itertools
import json
from random import Random

import pytest
from scripted_collection import ScriptedCollection, expired, line, thing

import virtual_time
from kapi.api.errors import ApiError, BadRequest, InternalError, NotFound, Timeout, TooManyRequests
from kapi.client.errors import ConnectError, ConnectionLost
from kapi.informer.cached import Intake, decoder_of
from kapi.informer.reflector import Pace, Reflector
from kapi.informer.states import TRANSITIONS, Outcome, State


class Store:
    """A sink that applies everything at once and remembers what it was told."""

    def __init__(self):
        self.objects = {}
        self.told = []
        self.bookmarks = []

    def _put(self, verb, obj):
        self.told.append((verb, obj.key.name, obj.revision))
        self.objects[obj.key] = obj

    def add(self, obj):
        self._put("add", obj)

    def update(self, obj):
        self._put("update", obj)

    def delete(self, obj):
        self.told.append(("delete", obj.key.name, obj.revision))
        self.objects.pop(obj.key, None)

    def replace(self, objects, version):
        self.objects = {obj.key: obj for obj in objects}
        self.told.append(("replace", sorted(key.name for key in self.objects), None))

    def bookmark(self, version):
        self.bookmarks.append(version)

    def newest(self, key):
        return self.objects.get(key)

    def states(self):
        return {key.name: obj.revision for key, obj in self.objects.items()}


class Running:
    """A reflector on a scripted collection, in virtual time."""

    def __init__(self, pace=None, before=None):
        self.server = ScriptedCollection()
        if before:
            before(self.server)
        self.store = Store()
        self.reflector = Reflector(
            self.server,
            Intake(decoder_of(dict)),
            self.store,
            name="things",
            pace=pace,
            clock=virtual_time.LoopClock(),
            random=Random(1),
        )

    async def __aenter__(self):
        self.task = asyncio.create_task(self.reflector.run())
        await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled()
        assert self.reflector.state is State.STOPPED
        assert not self.server.connections

    def is_equal(self):
        return self.store.states() == {
            name: int(obj["metadata"]["resourceVersion"]) for name, obj in self.server.objects.items()
        }


def scenario(main, **kwargs):
    async def run():
        async with Running(**kwargs) as running:
            await main(running)

    virtual_time.run(run())


def two_things(server):
    server.put("a")
    server.put("b")


def without_streaming(server):
    two_things(server)
    server.can_stream = False


# -- the beginning ----------------------------------------------------------------------------------------------------


def test_a_streamed_list_continues_as_a_watch_on_the_same_connection():
    async def main(run):
        assert run.store.told == [("replace", ["a", "b"], None)]
        run.server.put("c")
        await asyncio.sleep(1)
        assert run.is_equal()
        assert run.server.verbs() == ["stream"]
        assert run.reflector.state is State.WATCHING

    scenario(main, before=two_things)


@pytest.mark.parametrize(
    "write",
    [
        lambda kind, obj: b'{"type":"%b","object":%b}' % (kind, obj),
        lambda kind, obj: b'{"type":"%b","object": %b }' % (kind, obj),
        lambda kind, obj: b' { "type" : "%b", "object" : %b } ' % (kind, obj),
        lambda kind, obj: b'{"object":%b,"type":"%b"}' % (obj, kind),
        lambda kind, obj: b'{"type":"%b","object":%b,"more":{"metadata":{"name":"z"}}}' % (kind, obj),
        lambda kind, obj: b'{"type":"%b","object":{"metadata":{"name":"z"}},"object":%b}' % (kind, obj),
    ],
    ids=["as servers do", "spaces within", "spaces around", "object first", "another field", "object twice"],
)
def test_an_event_is_the_same_however_it_is_written(write):
    async def main(run):
        for kind, name, revision in ((b"ADDED", "c", 101), (b"MODIFIED", "a", 102), (b"DELETED", "b", 103)):
            obj = json.dumps(thing(name, revision, run.uids.get(name, "new"))).encode()
            run.server.connection.send(write(kind, obj))
            await asyncio.sleep(0.1)
            if kind != b"DELETED":
                [cached] = [kept for key, kept in run.store.objects.items() if key.name == name]
                assert cached.object() == json.loads(obj)
        assert run.store.told[1:] == [("add", "c", 101), ("update", "a", 102), ("delete", "b", 103)]
        assert run.server.verbs() == ["stream"]

    async def begun(run):
        run.uids = {key.name: obj.uid for key, obj in run.store.objects.items()}
        await main(run)

    scenario(begun, before=two_things)


def test_a_line_that_only_begins_like_an_event_is_none():
    async def main(run):
        run.server.connection.send(b'{"type":"ADDED","object":{"metadata":{"name":"c"}},}')
        await asyncio.sleep(0.1)
        assert "not an event" in str(run.reflector.last_error)
        assert run.is_equal()

    scenario(main, before=two_things)


@pytest.mark.parametrize("code", [400, 405, 406, 415, 422, 501])
def test_lists_where_streaming_is_not_understood_and_does_not_ask_again(code):
    def before(server):
        two_things(server)
        error = ApiError("no")
        vars(error)["code"] = code
        server.failures = [error]

    async def main(run):
        assert run.server.verbs() == ["stream", "list", "watch"]
        run.server.compact()
        run.server.put("c")
        run.server.compact()
        run.server.connection.fail(expired())
        await asyncio.sleep(5)
        assert run.server.verbs()[3:] == ["list", "watch"]
        assert run.is_equal()

    scenario(main, before=before)


def test_lists_in_pages_and_takes_what_the_server_has_at_hand_first():
    def before(server):
        without_streaming(server)
        for number in range(5):
            server.put(f"n{number}")

    async def main(run):
        lists = [query for _, verb, query in run.server.requests if verb == "list"]
        assert [(query["resource_version"], query["limit"], query["continue_"]) for query in lists] == [
            ("0", 3, ""),
            ("", 3, "3"),
            ("", 3, "6"),
        ]
        assert run.is_equal()

    scenario(main, before=before, pace=Pace(page_size=3))


def test_pages_that_expire_are_followed_by_a_list_in_one_piece():
    def before(server):
        without_streaming(server)
        list_page = server.list_page

        async def expiring(**query):
            if query["continue_"]:
                server.requests.append((0, "expired", query))
                raise expired()
            return await list_page(**query)

        server.list_page = expiring

    async def main(run):
        assert run.server.verbs() == ["stream", "list", "expired", "list", "watch"]
        assert run.server.requests[3][2] == {"resource_version": "", "limit": 0, "continue_": ""}
        assert run.is_equal()

    scenario(main, before=before, pace=Pace(page_size=1))


def test_a_server_that_ignores_the_question_for_initial_events_is_listed():
    def before(server):
        two_things(server)
        server._bookmark = lambda **_: line("BOOKMARK", {"metadata": {"resourceVersion": str(server.revision)}})

    async def main(run):
        assert run.store.told == []
        await asyncio.sleep(31)
        assert run.server.verbs() == ["stream", "list", "watch"]
        assert run.is_equal()

    scenario(main, before=before)


def test_initial_events_that_break_off_are_not_taken_for_everything():
    async def main(run):
        server = run.server
        server.connection.fail(expired())
        server._bookmark, whole = lambda **_: line("BOOKMARK", {"metadata": {}}), server._bookmark
        await asyncio.sleep(2)
        server.connection.end()
        server._bookmark = whole
        await asyncio.sleep(0.1)
        assert run.store.told == [("replace", ["a", "b"], None)]
        await asyncio.sleep(10)
        assert run.server.verbs() == ["stream", "stream", "list", "watch"]
        assert run.is_equal()

    scenario(main, before=two_things)


@pytest.mark.parametrize("works", ["list", "stream"])
def test_gets_there_when_only_one_of_listing_and_streaming_works(works):
    class Half(ScriptedCollection):
        def _request(self, verb, **query):
            super()._request(verb, **query)
            if verb in ("list", "stream") and verb != works:
                raise InternalError("no")

    async def run():
        running = Running()
        running.server.__class__ = Half
        running.server.put("a")
        async with running:
            await asyncio.sleep(5)
            assert running.is_equal()

    virtual_time.run(run())


# -- what breaks a watch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "break_",
    [
        lambda connection: connection.end(),
        lambda connection: connection.fail(ConnectionLost("reset")),
        lambda connection: connection.fail(InternalError("no")),
        lambda connection: connection.send(b"{"),
        lambda connection: connection.send(b'{"type":"ADDED","object":{}}'),
        lambda connection: connection.send(b'{"type":"BOOKMARK","object":[]}'),
    ],
    ids=["end", "reset", "error", "bad JSON", "no object", "bad bookmark"],
)
def test_a_watch_that_breaks_is_resumed_where_it_was(break_):
    async def main(run):
        await asyncio.sleep(5)
        run.server.put("c")
        await asyncio.sleep(1)
        break_(run.server.connection)
        run.server.delete("a")
        await asyncio.sleep(3)
        assert run.is_equal()
        assert run.server.verbs() == ["stream", "watch"]
        assert run.server.requests[1][2]["resource_version"] == "13"
        assert ("delete", "a", 14) in run.store.told
        assert run.reflector.last_error is None

    scenario(main, before=two_things)


def test_a_watch_lasts_for_a_random_time_and_is_followed_by_the_next_at_once():
    async def main(run):
        for _ in range(60):
            run.server.put("a")
            await asyncio.sleep(30)
        watches = [(at, query["timeout_seconds"]) for at, verb, query in run.server.requests]
        assert all(300 <= seconds <= 600 for _, seconds in watches)
        assert len({seconds for _, seconds in watches}) > 1
        for (before, seconds), (after, _) in itertools.pairwise(watches):
            assert after - before == pytest.approx(seconds, abs=0.01)

    scenario(main)


def test_watches_that_end_at_once_do_not_make_a_loop():
    async def main(run):
        for _ in range(600):
            for connection in run.server.connections:
                run.server.put("a")
                connection.end()
            await asyncio.sleep(0.5)
        assert len(run.server.requests) < 20
        assert run.is_equal()

    scenario(main)


def test_an_expired_watch_is_followed_by_everything_and_what_went_missing_is_gone():
    async def main(run):
        run.server.connection.stall()
        run.server.delete("a")
        run.server.compact()
        connection = run.server.connection
        connection.is_stalled = False
        connection.send(line("ERROR", expired().status()))
        await asyncio.sleep(3)
        assert run.server.verbs() == ["stream", "stream"]
        assert run.is_equal()
        assert run.store.told[-1] == ("replace", ["b"], None)

    scenario(main, before=two_things)


def test_a_server_that_always_answers_410_is_asked_less_and_less():
    async def main(run):
        run.server.failures = [expired() for _ in range(1000)]
        run.server.connection.fail(expired())
        await asyncio.sleep(600)
        late = [at for at, *_ in run.server.requests if at > 1000 + 300]
        assert len(late) <= 50
        run.server.failures.clear()
        run.server.put("c")
        await asyncio.sleep(61)
        assert run.is_equal()

    scenario(main, before=two_things)


def test_a_dead_server_is_asked_at_most_ten_times_a_minute_and_found_again():
    async def main(run):
        run.server.is_dead = True
        run.server.connection.fail(ConnectionLost("reset"))
        await asyncio.sleep(3600)
        late = [at for at, *_ in run.server.requests if at > 1000 + 120]
        for minute in range(1120, 4600, 60):
            assert sum(minute <= at < minute + 60 for at in late) <= 2
        run.server.is_dead = False
        run.server.put("c")
        await asyncio.sleep(61)
        assert run.is_equal()

    scenario(main, before=two_things)


def test_a_watch_that_cannot_be_resumed_is_given_up_for_a_list():
    async def main(run):
        run.server.failures = [InternalError("no") for _ in range(3)]
        run.server.connection.end()
        await asyncio.sleep(30)
        assert run.server.verbs() == ["stream", "watch", "watch", "watch", "stream"]

    scenario(main, before=two_things)


@pytest.mark.parametrize("error", [BadRequest("invalid resource version"), NotFound("gone")])
def test_a_watch_that_is_refused_is_given_up_for_a_list_at_once(error):
    async def main(run):
        run.server.failures = [error]
        run.server.connection.end()
        await asyncio.sleep(30)
        assert run.server.verbs() == ["stream", "watch", "stream"]

    scenario(main, before=two_things)


def test_what_the_server_asks_us_to_wait_is_waited():
    def before(server):
        server.failures = [TooManyRequests("slow down", details={"retryAfterSeconds": 45})]

    async def main(run):
        await asyncio.sleep(44.8)
        assert run.server.verbs() == ["stream"]
        assert run.reflector.state is State.WAITING
        await asyncio.sleep(0.5)
        assert run.server.verbs() == ["stream", "list", "watch"]

    scenario(main, before=before)


def test_a_server_that_is_behind_us_is_asked_for_what_it_has():
    too_large = Timeout("Too large resource version", details={"causes": [{"reason": "ResourceVersionTooLarge"}]})

    async def main(run):
        run.server.connection.fail(expired())
        run.server.failures = [too_large]
        await asyncio.sleep(10)
        assert [verb for verb in run.server.verbs() if verb != "watch"] == ["stream", "stream", "list"]
        assert run.server.requests[2][2]["resource_version"] == ""

    scenario(main, before=two_things)


def test_a_list_is_never_older_than_what_was_seen():
    async def main(run):
        run.server.connection.fail(expired())
        await asyncio.sleep(3)
        assert run.server.requests[-2][1:] == ("list", {"resource_version": "12", "limit": 0, "continue_": ""})

    scenario(main, before=without_streaming)


# -- silence ----------------------------------------------------------------------------------------------------------


def test_a_stall_is_noticed_within_a_minute_and_nothing_is_lost():
    async def main(run):
        run.server.connection.stall()
        run.server.delete("a")
        await asyncio.sleep(60)
        assert run.is_equal()
        assert run.server.verbs() == ["stream", "watch"]

    scenario(main, before=two_things)


def test_a_watch_on_which_nothing_happens_is_ended_by_the_server_from_then_on():
    async def main(run):
        await asyncio.sleep(3600)
        seconds = [query["timeout_seconds"] for _, _, query in run.server.requests]
        assert set(seconds[1:]) == {50}
        assert len(seconds) < 75
        assert run.reflector.last_error is None

    scenario(main, before=two_things)


def test_bookmarks_keep_the_revision_young_where_nothing_happens():
    async def main(run):
        for _ in range(100):
            run.server.revision += 1
            await asyncio.sleep(30)
        run.server.compact()
        run.server.put("c")
        await asyncio.sleep(120)
        assert run.is_equal()
        assert run.server.verbs().count("stream") == 1

    scenario(main, before=two_things)


def test_watches_are_long_again_once_something_happens():
    async def main(run):
        await asyncio.sleep(100)
        for _ in range(20):
            run.server.put("a")
            await asyncio.sleep(10)
        assert run.server.requests[-1][2]["timeout_seconds"] >= 300

    scenario(main)


# -- echoes -----------------------------------------------------------------------------------------------------------


def test_what_a_connection_repeats_is_dropped():
    async def main(run):
        run.server.put("a")
        run.server.put("a")
        run.server.delete("b")
        await asyncio.sleep(1)
        told = list(run.store.told)
        for text in list(run.server.connection.sent[-3:]):
            run.server.connection.send(text)
        run.server.connection.send(line("ADDED", thing("b", 12, "uid-2")))
        await asyncio.sleep(1)
        assert [one for one in run.store.told[len(told) :] if one != ("update", "a", 14)] == []
        assert run.is_equal()
        assert run.server.verbs() == ["stream"]

    scenario(main, before=two_things)


def test_an_object_that_is_selected_again_comes_back():
    async def main(run):
        run.server.delete("a")
        run.server.come_back("a")
        await asyncio.sleep(1)
        assert run.is_equal()
        assert [told[0] for told in run.store.told] == ["replace", "delete", "add"]

    scenario(main, before=two_things)


def test_the_revision_never_decreases():
    async def main(run):
        run.server.put("a")
        run.server.put("b")
        await asyncio.sleep(1)
        run.server.connection.send(run.server.connection.sent[-2])
        await asyncio.sleep(1)
        assert run.reflector.resource_version == "14"

    scenario(main, before=two_things)


@pytest.mark.parametrize("name, uid", [("a", "uid-1"), ("new", "uid-9")], ids=["known", "new"])
def test_a_server_with_another_history_is_listed_again(name, uid):
    async def main(run):
        run.server.put("a")
        await asyncio.sleep(1)
        run.server.connection.end()
        await asyncio.sleep(3)
        run.server.revision = 5
        run.server.objects = {name: thing(name, 5, uid)}
        run.server.connection.send(line("MODIFIED", run.server.objects[name]))
        await asyncio.sleep(3)
        assert run.store.states() == {name: 5}
        assert run.server.requests[-1][1:2] == ("stream",)
        assert run.server.requests[-1][2]["resource_version"] == ""

    scenario(main, before=two_things)


def test_an_object_that_a_restored_server_has_again_is_followed_again():
    async def main(run):
        run.server.delete("a")
        await asyncio.sleep(1)
        run.server.connection.fail(expired())
        await asyncio.sleep(0.1)
        run.server.objects["a"] = thing("a", 11, "uid-1")
        run.server.revision = 12
        await asyncio.sleep(3)
        run.server.put("a")
        await asyncio.sleep(1)
        assert run.is_equal()

    scenario(main, before=two_things)


def test_versions_that_are_not_numbers_are_taken_as_they_come():
    async def main(run):
        for version in ("x2", "x1"):
            run.server.connection.send(line("MODIFIED", thing("a", version, "uid-1")))
        await asyncio.sleep(1)
        assert run.store.objects[next(iter(run.store.objects))].resource_version == "x1"
        assert run.reflector.resource_version == "x1"

    scenario(main, before=two_things)


def test_events_of_unknown_types_are_ignored(caplog):
    async def main(run):
        run.server.connection.send(line("RENAMED", thing("a", 20, "uid-1")))
        await asyncio.sleep(1)
        assert run.store.states()["a"] == 11
        assert "RENAMED" in caplog.text

    scenario(main, before=two_things)


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_an_unexpected_error_is_retried_with_back_off(caplog):
    def before(server):
        server.failures = [ZeroDivisionError("what")]

    async def main(run):
        await asyncio.sleep(3)
        assert run.server.verbs() == ["stream", "list", "watch"]
        assert "unexpected error" in caplog.text

    scenario(main, before=before)


def test_says_what_is_wrong_while_it_is():
    def before(server):
        server.failures = [ConnectError("connection refused")] * 3

    async def main(run):
        assert "refused" in str(run.reflector.last_error)
        await asyncio.sleep(30)
        assert run.reflector.last_error is None

    scenario(main, before=before)


def test_every_state_that_does_something_says_how_it_can_end():
    assert set(TRANSITIONS) == {State.STREAMING, State.LISTING, State.WATCHING}
    for outcomes in TRANSITIONS.values():
        for outcome, step in outcomes.items():
            assert step.state in TRANSITIONS
            if outcome in (Outcome.FAILED, Outcome.LOST, Outcome.BRIEF):
                assert step.wait


def test_a_long_stream_lets_others_have_their_turn():
    turns = []

    def before(server):
        for number in range(2000):
            server.put(f"n{number}")

    async def main():
        running = Running(before=before)

        async def other():
            while not running.store.told:
                turns.append(1)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async with running:
            await task

    virtual_time.run(main())
    assert len(turns) >= 8
