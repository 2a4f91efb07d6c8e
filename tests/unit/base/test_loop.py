"""Which event loop is picked."""

import asyncio
import sys

import uvloop

from kapi.base.loop import loop_factory, run


async def which():
    return type(asyncio.get_running_loop())


def test_uvloop_is_used_where_it_is_installed():
    assert loop_factory() is uvloop.new_event_loop
    assert run(which()) is uvloop.Loop


def test_asyncio_is_used_where_uvloop_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run(which()).__module__.startswith("asyncio.")
