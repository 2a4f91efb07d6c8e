from __future__ import annotations

import asyncio
from pathlib import Path  # noqa: TC003

import pytest
from damaged_files import ALL, crash
from test_sqlite import opened, put_many


@pytest.fixture(scope="session")
def crashed(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("crashed") / "data"
    crash(path)
    return path


@pytest.fixture(scope="session")
def closed(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("closed") / "data"

    async def scenario():
        async with opened(path) as store:
            await put_many(store, ALL)

    asyncio.run(scenario())
    return path
