"""Waiting without polling, through everything a server does to its watchers."""

import asyncio
import json

import pytest

from kapi.api.errors import Conflict, Forbidden, NotFound
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.client import ConnectionLost, RESTClient, WaitTimeout, retry_on_conflict
from kapi.client.typed import TypedClient, dictionary_decoder
from kapi.client.wait import condition_met, wait_for, wait_until_deleted
from virtual_time import run

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
PODS = GroupVersionResource("", "v1", "pods")
POD = GroupVersionKind("", "v1", "Pod")


def _pod(version, phase="Pending", uid="1", **status):
    return {
        "metadata": {"name": "a", "uid": uid, "resourceVersion": str(version)},
        "status": {"phase": phase, **status},
    }


def _listed(http, version, *items):
    return http(200, json.dumps({"metadata": {"resourceVersion": str(version)}, "items": items}).encode())


def _event(kind, obj):
    line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
    return f"{len(line):x}\r\n".encode() + line + b"\r\n"


def _status(code, reason):
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": reason}


def _is_running(pod):
    return pod["status"]["phase"] == "Running"


def _wait(script, answers, wait=wait_for, arguments=(_is_running,), timeout=600):
    """Wait for a pod of a scripted server, in virtual time: the result, the requests, and the seconds it took."""

    async def main():
        server = script(answers)
        async with server.serving() as config, RESTClient(config) as rest:
            client = TypedClient(rest, PODS, dictionary_decoder(POD), "n")
            started = asyncio.get_running_loop().time()
            try:
                result = await wait(client, "a", *arguments, timeout=timeout)
            except Exception as error:
                result = error
            took = asyncio.get_running_loop().time() - started
        lines = [request.split(" ", 2)[1] for request in server.requests]
        return result, ["watch" if "watch=true" in line else "list" for line in lines], took, server.requests

    return run(main())


def test_object_that_is_ready_needs_one_list(script, http):
    result, verbs, _, requests = _wait(script, [_listed(http, 5, _pod(4, "Running"))])
    assert result["status"]["phase"] == "Running"
    assert verbs == ["list"]
    assert "fieldSelector=metadata.name%3Da" in requests[0]


def test_object_is_watched_from_where_it_was_listed(script, http):
    watch = [STREAM, _event("MODIFIED", _pod(6)), _event("MODIFIED", _pod(7, "Running"))]
    result, verbs, _, requests = _wait(script, [_listed(http, 5, _pod(4)), watch])
    assert result["metadata"]["resourceVersion"] == "7"
    assert verbs == ["list", "watch"]
    assert "resourceVersion=5&" in requests[1]
    assert "timeoutSeconds=60" in requests[1]


def test_watch_that_ends_is_taken_up_where_it_was(script, http):
    bookmark = _event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}})
    answers = [
        _listed(http, 5),
        [STREAM, _event("ADDED", _pod(6)), bookmark, END],
        [STREAM, _event("MODIFIED", _pod(12, "Running"))],
    ]
    result, verbs, _, requests = _wait(script, answers)
    assert result["metadata"]["resourceVersion"] == "12"
    assert verbs == ["list", "watch", "watch"]
    assert "resourceVersion=9&" in requests[2]


@pytest.mark.parametrize("form", ["in the stream", "as an answer"])
def test_revision_that_is_gone_means_another_list(script, http, form):
    expired = _status(410, "Expired")
    refusal = (
        [STREAM, _event("ERROR", expired), END] if form == "in the stream" else http(410, json.dumps(expired).encode())
    )
    answers = [_listed(http, 5, _pod(4)), refusal, _listed(http, 90, _pod(80, "Running"))]
    result, verbs, took, _ = _wait(script, answers)
    assert result["metadata"]["resourceVersion"] == "80"
    assert verbs == ["list", "watch", "list"]
    assert took < 5


def test_trouble_after_the_first_sight_is_waited_out_ever_more_slowly(script, http, cut):
    trouble = http(500, json.dumps(_status(500, "InternalError")).encode())
    answers = [_listed(http, 5, _pod(4)), [STREAM, END], *[trouble] * 6, _listed(http, 90, _pod(80, "Running"))]
    result, verbs, took, _ = _wait(script, answers)
    assert result["metadata"]["resourceVersion"] == "80"
    assert len(verbs) == 9
    assert took > 10


def test_server_that_ends_every_watch_at_once_is_not_run_over(script, http):
    answers = [_listed(http, 5, _pod(4)), *[[STREAM, END]] * 500]
    error, verbs, took, _ = _wait(script, answers, timeout=600)
    assert isinstance(error, WaitTimeout)
    assert took == pytest.approx(600, abs=1)
    assert len(verbs) < 60


def test_server_that_falls_silent_is_left(script, http):
    answers = [_listed(http, 5, _pod(4)), [STREAM], _listed(http, 90, _pod(80, "Running"))]
    result, verbs, took, _ = _wait(script, answers)
    assert result["metadata"]["resourceVersion"] == "80"
    assert verbs == ["list", "watch", "list"]
    assert 60 < took < 80


def test_first_trouble_is_the_callers(script, http, cut):
    error, _, _, _ = _wait(script, [cut] * 20)
    assert isinstance(error, ConnectionLost)


def test_refusal_is_the_callers_at_any_time(script, http):
    forbidden = http(403, json.dumps(_status(403, "Forbidden")).encode())
    error, verbs, _, _ = _wait(script, [_listed(http, 5, _pod(4)), forbidden])
    assert isinstance(error, Forbidden)
    assert verbs == ["list", "watch"]


def test_time_that_is_up_says_what_was_seen(script, http):
    condition = {"type": "Ready", "status": "False", "message": "no node"}
    answers = [_listed(http, 5, _pod(4, conditions=[condition])), [STREAM]]
    error, _, took, _ = _wait(script, answers, arguments=("condition=Ready",), timeout=30)
    assert isinstance(error, TimeoutError)
    assert took == pytest.approx(30, abs=1)
    assert str(error) == (
        "pods n/a did not meet 'condition=Ready' within 30 s; last seen at revision 4 with Ready=False (no node)"
    )
    error, _, _, _ = _wait(script, [_listed(http, 5), [STREAM]], timeout=30)
    assert str(error) == "pods n/a did not meet '_is_running' within 30 s; it does not exist"


def test_error_of_the_callers_function_is_the_callers(script, http):
    def broken(pod):
        raise TimeoutError("mine")

    error, _, _, _ = _wait(script, [_listed(http, 5, _pod(4))], arguments=(broken,))
    assert (type(error), str(error)) == (TimeoutError, "mine")


# -- deletion ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(lambda http: [[STREAM, _event("DELETED", _pod(6))]], id="seen"),
        pytest.param(lambda http: [[STREAM], _listed(http, 90)], id="missed"),
        pytest.param(lambda http: [[STREAM], _listed(http, 90, _pod(80, uid="2"))], id="replaced"),
    ],
)
def test_deletion_is_noticed(script, http, rest):
    answers = [_listed(http, 5, _pod(4)), *rest(http)]
    result, _, _, _ = _wait(script, answers, wait_until_deleted, ())
    assert result is None


def test_what_is_not_there_is_deleted(script, http):
    assert _wait(script, [_listed(http, 5)], wait_until_deleted, ())[0] is None


def test_deletion_that_does_not_come_is_said(script, http):
    error, _, _, _ = _wait(script, [_listed(http, 5, _pod(4)), [STREAM]], wait_until_deleted, (), timeout=30)
    assert str(error) == "pods n/a did not go away within 30 s; last seen at revision 4"


# -- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "condition", "is_met"),
    [
        ("condition=Ready", {"type": "Ready", "status": "True"}, True),
        ("condition=ready", {"type": "Ready", "status": "True"}, True),
        ("condition=Ready", {"type": "Ready", "status": "False"}, False),
        ("condition=Ready=False", {"type": "Ready", "status": "False"}, True),
        ("condition=Ready=unknown", {"type": "Ready", "status": "Unknown"}, True),
        ("condition=Ready", {"type": "Other", "status": "True"}, False),
        ("condition=Ready", {"type": "Ready", "status": "True", "observedGeneration": 2}, True),
        ("condition=Ready", {"type": "Ready", "status": "True", "observedGeneration": 1}, False),
    ],
)
def test_condition_is_read_as_kubectl_reads_it(text, condition, is_met):
    obj = {"metadata": {"generation": 2}, "status": {"conditions": [condition]}}
    assert condition_met(text)(obj) == is_met
    assert not condition_met(text)({"metadata": {}})


@pytest.mark.parametrize("text", ["", "Ready", "condition=", "jsonpath={.a}=1", "delete"])
def test_condition_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="is no condition"):
        condition_met(text)


# -- conflicts --------------------------------------------------------------------------------------------------------


def _trying(*results):
    """A change that goes these ways one after the other; and how often it was tried."""
    tries = []

    async def change():
        tries.append(None)
        result = results[len(tries) - 1]
        if isinstance(result, Exception):
            raise result
        return result

    return change, tries


def test_conflict_is_tried_again_and_nothing_else_is():
    change, tries = _trying(Conflict("c"), Conflict("c"), "done")
    assert run(retry_on_conflict(change)) == "done"
    assert len(tries) == 3
    change, tries = _trying(NotFound("n"), "done")
    with pytest.raises(NotFound):
        run(retry_on_conflict(change))
    assert len(tries) == 1


def test_conflict_that_stays_is_raised():
    change, tries = _trying(*[Conflict("c")] * 9)
    with pytest.raises(Conflict):
        run(retry_on_conflict(change, tries=4))
    assert len(tries) == 4
    with pytest.raises(ValueError, match="at least one"):
        run(retry_on_conflict(change, tries=0))
