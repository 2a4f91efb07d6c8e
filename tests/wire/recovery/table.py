"""The outcomes as a table in Markdown: a row for each scenario, a column for each client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from recovery.clients import Client

PRINTED = pytest.StashKey[str]()
"""Where a test leaves the table, to be printed at the end of the run."""


def render(clients: list[Client], sentences: dict[str, str], outcomes: dict[tuple[str, str], str]) -> str:
    """The table, and below it what the scenarios are, and which clients are missing and why."""
    present = [client for client in clients if not client.why_missing]
    rows = [
        ["", *(client.name for client in present)],
        ["release", *(client.version() for client in present)],
        *([name, *(outcomes[client.name, name] for client in present)] for name in sentences),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    lines.insert(1, f"|{'|'.join('-' * (width + 2) for width in widths)}|")
    lines += ["", *(f"{name}: {sentence}" for name, sentence in sentences.items())]
    lines += [f"{client.name}: skipped, {client.why_missing}" for client in clients if client.why_missing]
    return "\n".join(lines)
