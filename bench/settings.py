"""The size of a run: seconds, rounds, and numbers of objects, connections and watchers."""

from __future__ import annotations

from dataclasses import dataclass, field

QUICK_SECONDS = 0.3


@dataclass(frozen=True)
class Settings:
    """The size of a run. The defaults are what published figures use."""

    seconds: float = 3.0
    """How long each load row runs in each round."""
    rounds: int = 3
    """How often the targets take turns; figures are medians over the rounds."""
    some: int = 10_000
    """Objects in the smaller memory row, in the lists, and under the get, update and patch rows."""
    many: int = 50_000
    """Objects in the larger memory row."""
    page: int = 500
    connections: tuple[int, ...] = (1, 16, 64)
    watchers: dict[str, int] = field(default_factory=lambda: {"one": 1, "some": 100, "many": 1_000})
    definitions: int = 1_000
    """Definitions in the rows about many custom kinds."""
    instances: int = 1_000
    """Objects of one custom kind in the rows that read them."""
    firsts: int = 2
    """New definitions in each round of the row about how soon one is served."""
    burst: int = 1_000
    """Updates that pile up while a client sleeps."""
    touches: int = 500
    """Updates made one by one in the row about how late a client is."""
    tests: int = 200
    """Tests that each have a fork of an environment."""
    pause: float = 2.0
    """Pause before memory is read, so that collectors and caches come to rest."""


def quick(seconds: float = QUICK_SECONDS) -> Settings:
    """Small enough for a smoke test; every row is there, no figure means anything."""
    return Settings(
        seconds=seconds,
        rounds=1,
        some=200,
        many=500,
        page=50,
        watchers={"one": 1, "some": 10, "many": 30},
        definitions=50,
        instances=50,
        firsts=1,
        burst=100,
        touches=20,
        tests=3,
        pause=0.0,
    )
