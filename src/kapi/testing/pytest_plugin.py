"""Fixtures of pytest, found by their entry point once `kapi[testing]` is installed.

    @pytest.fixture(scope="session")
    def kapi_environment_options():
        return {"crds": [Network]}

    def test_a_network_is_stored(kapi_client, kapi_namespace):
        kapi_client.create(network("a", kapi_namespace))

    async def test_a_network_is_reconciled(kapi_environment): ...

`kapi_environment`, `kapi_client` and `kapi_namespace` are of the kind that the test is: an asynchronous test gets an
`Environment` on its own event loop and its `Client`, run by pytest-asyncio or by anyio; any other gets a
`SyncEnvironment` and a `SyncClient`, and needs neither. Each test has an environment of its own, a copy of one with the
options' kinds and objects, so tests may run in any order and in parallel (pytest-xdist).

`pytest --kapi-requests=FILE` records the rights that managers needed, for `kapi generate rbac --check FILE`.

Nothing of a control plane is imported before a test asks for it.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping

    from kapi.client.client import Client
    from kapi.client.sync import SyncClient
    from kapi.storage.memory import Snapshot
    from kapi.testing.environment import Environment
    from kapi.testing.sync import SyncEnvironment


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the record of requests."""
    parser.getgroup("kapi").addoption(
        "--kapi-requests",
        metavar="FILE",
        help="record the rights that the managers of kapi.testing needed, for kapi generate rbac --check FILE",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin a new record of requests."""
    path = config.getoption("--kapi-requests")
    if path and not hasattr(config, "workerinput"):  # the processes of pytest-xdist inherit the variable
        from kapi.testing.rights import VARIABLE

        file = Path(path).absolute()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        os.environ[VARIABLE] = str(file)


class _Origins:
    """The state of environments after their start, by the options they were made with."""

    def __init__(self) -> None:
        self._states: list[tuple[Mapping[str, Any], Snapshot]] = []

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options, with the state to begin with if there is one."""
        state = next((state for options, state in self._states if options is given), None)
        return {**given, "snapshot": state} if state is not None else dict(given)

    def keep(self, given: Mapping[str, Any], state: Callable[[], Snapshot]) -> None:
        """Keep the state of an environment that was made with these options."""
        from kapi.testing.servers import Unsupported

        if "snapshot" not in self.options(given):
            try:
                self._states.append((given, state()))
            except Unsupported:  # an existing cluster has one state, which all tests share
                return


_origins = _Origins()


@pytest.fixture(scope="session")
def kapi_environment_options() -> dict[str, Any]:
    """Return the arguments of `Environment`; override it to name kinds and objects."""
    return {}


@pytest.fixture
def kapi_environment(kapi_environment_options: dict[str, Any]) -> Iterator[SyncEnvironment]:
    """An environment of the test's own: an `Environment` for an asynchronous test, else a `SyncEnvironment`."""
    from kapi.testing.sync import SyncEnvironment

    with SyncEnvironment(**_origins.options(kapi_environment_options)) as env:
        _origins.keep(kapi_environment_options, env.snapshot)
        yield env


@pytest.fixture
def kapi_client(kapi_environment: SyncEnvironment) -> SyncClient:
    """The admin's client of the test's environment: a `Client` for an asynchronous test, else a `SyncClient`."""
    return kapi_environment.client


@pytest.fixture
def kapi_namespace(kapi_environment: SyncEnvironment) -> Iterator[str]:
    """The name of a new namespace of the test's environment."""
    with kapi_environment.namespace() as name:
        yield name


async def _environment(kapi_environment_options: dict[str, Any]) -> AsyncIterator[Environment]:
    from kapi.testing.environment import Environment

    async with Environment(**_origins.options(kapi_environment_options)) as env:
        _origins.keep(kapi_environment_options, env.snapshot)
        yield env


async def _client(kapi_environment: Environment) -> AsyncIterator[Client]:
    yield kapi_environment.client


async def _namespace(kapi_environment: Environment) -> AsyncIterator[str]:
    async with kapi_environment.namespace() as name:
        yield name


_ASYNCHRONOUS = {"kapi_environment": _environment, "kapi_client": _client, "kapi_namespace": _namespace}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Set up our fixtures by what runs the test; before the plugins for asynchronous fixtures look at them."""
    definition: Any = fixturedef
    given = definition.func
    if given.__module__ == __name__ and inspect.iscoroutinefunction(getattr(request, "function", None)):
        function = _ASYNCHRONOUS.get(fixturedef.argname, given)
        is_anyio = "anyio_backend" in request.fixturenames
        definition.func = function if is_anyio or function is given else _for_pytest_asyncio(function, request)
    try:
        return (yield)
    finally:
        definition.func = given


def _for_pytest_asyncio(function: Callable[..., Any], request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a fixture that pytest-asyncio runs on the loop of the test, in its strict mode too.

    `@pytest_asyncio.fixture` sets these two attributes. It is not used here because it would have anyio's tests run by
    pytest-asyncio where both are installed, and because the scope of the loop is the test's.
    """

    async def fixture(**arguments: Any) -> AsyncIterator[Any]:
        async for value in function(**arguments):
            yield value

    marker = request.node.get_closest_marker("asyncio")
    named = marker.kwargs.get("loop_scope") if marker is not None else None
    vars(fixture).update(
        _force_asyncio_fixture=True,
        _loop_scope=named or _default_loop_scope(request.config),
    )
    return fixture


def _default_loop_scope(config: pytest.Config) -> str | None:
    try:
        return str(config.getini("asyncio_default_test_loop_scope"))
    except (KeyError, ValueError):  # pytest-asyncio is not installed; pytest says so for the test itself
        return None
