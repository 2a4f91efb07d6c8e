"""The contract with the user."""

import asyncio

import pytest

from kapi.api.keys import ObjectKey
from kapi.controller.reconcile import Reconciler, Request, Result, TerminalError, as_function, is_terminal


def test_a_request_is_the_key_of_an_object():
    assert Request("default", "a") == ObjectKey("default", "a")
    assert str(Request("default", "a")) == "default/a"


def test_a_class_with_a_reconcile_method_and_a_plain_function_are_both_reconcilers():
    class Networks:
        async def reconcile(self, request):
            return Result(requeue_after=len(request.name))

    async def networks(request):
        return Result(requeue_after=len(request.name))

    assert isinstance(Networks(), Reconciler)
    for reconciler in (Networks(), networks):
        assert asyncio.run(as_function(reconciler)(Request("", "abc"))) == Result(requeue_after=3)


def test_something_that_is_neither_is_refused_with_its_name():
    with pytest.raises(TypeError, match="42 is not a reconciler"):
        as_function(42)


@pytest.mark.parametrize(
    "error, terminal",
    [
        (TerminalError("no such zone"), True),
        (ValueError("try again"), False),
        (ExceptionGroup("all", [TerminalError("a"), ExceptionGroup("b", [TerminalError("c")])]), True),
        (ExceptionGroup("some", [TerminalError("a"), ValueError("b")]), False),
    ],
    ids=["terminal", "other", "group of terminal", "group with another"],
)
def test_only_errors_that_nothing_can_cure_are_terminal(error, terminal):
    assert is_terminal(error) is terminal
