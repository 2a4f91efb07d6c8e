"""The report of a run: medians and ratios as JSON, and as a table in Markdown.

A ratio is how many times better Kapi is: above 1 it wins, whether the row counts requests, seconds or bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.figures import Figure, median, times_better
from bench.table import KAPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.runner import Bench
    from bench.table import Row

BUSY = 0.9
"""A load generator that was busy for a larger share of the time may have been what limited the row."""
CROWDED = 0.2
"""If others used a larger share of the cores during a row, its absolute figure means little."""
NOTHING = "\u2013"
TIMES = "\u00d7"


HEADINGS = [
    "Row",
    "Kapi",
    "p50 / p99",
    "Compared with",
    "Its figure",
    "p50 / p99",
    "Ratio",
    "of p50, p99",
    "of processor time",
    "Budget",
]
MARKS = {
    "¹": "¹ The load generator was busy all the time; the server may do more than this.",
    "²": "² Other programs used more than a fifth of the machine meanwhile; trust the ratio more than the figure.",
}
TEXT = ("Row", "Compared with")


def rows_of(bench: Bench, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return every row with its figures, or the reason why it could not be measured."""
    return [_row(row, bench.figures.get(row.id, {}), bench.failures.get(row.id, {})) for row in rows]


def _row(row: Row, figures: dict[str, list[Figure]], failures: dict[str, str]) -> dict[str, Any]:
    medians = {name: median(rounds) for name, rounds in figures.items()}
    ours = medians.pop(KAPI, None)
    ratios = {name: _ratios(row, ours, theirs) for name, theirs in medians.items() if ours is not None}
    if ours is None and KAPI not in failures:
        failures = {**failures, KAPI: "not measured"}
    return {
        "id": row.id,
        "title": row.title,
        "unit": row.unit,
        "more_is_better": row.more_is_better,
        "budget": row.budget,
        "limit": row.limit,
        "against": row.against,
        "budgets": row.budgets,
        "kapi": ours,
        "others": medians,
        "ratios": ratios,
        "rounds": {name: [figure["value"] for figure in rounds] for name, rounds in figures.items()},
        "failures": failures,
    }


def _ratios(row: Row, ours: Figure, theirs: Figure) -> dict[str, float | None]:
    ratios = {"value": times_better(ours["value"], theirs["value"], more_is_better=row.more_is_better)}
    for name in ("p50", "p99"):
        if name in ours and name in theirs:
            ratios[name] = times_better(ours[name], theirs[name], more_is_better=False)
    if row.unit == "/s" and "server_cpu" in ours and "server_cpu" in theirs:
        each = [figure["server_cpu"] / figure["value"] if figure["value"] else 0.0 for figure in (ours, theirs)]
        ratios["processor"] = times_better(*each, more_is_better=False)
    return ratios


def markdown(result: dict[str, Any]) -> str:
    """The table, with what is needed to interpret it."""
    table = [HEADINGS, *(cells for row in result["rows"] for cells in _lines(row, result["machine"]["cores"]))]
    # Empty columns are left out.
    used = [number for number in range(len(HEADINGS)) if any(cells[number] != NOTHING for cells in table[1:])]
    lines = [f"| {' | '.join(cells[number] for number in used)} |" for cells in table]
    lines.insert(1, f"|{'|'.join('---' if HEADINGS[number] in TEXT else '--:' for number in used)}|")
    return "\n".join([*lines, "", _machine(result), *_notes(result)]) + "\n"


def _lines(row: dict[str, Any], cores: int) -> list[list[str]]:
    """One line for each that Kapi is compared with; from the second on Kapi's figure is not repeated."""
    lines = [_cells(row, cores, name) for name in row["others"] or [NOTHING]]
    own = HEADINGS.index("Compared with")
    return [lines[0], *([*[""] * own, *cells[own:]] for cells in lines[1:])]


def _cells(row: dict[str, Any], cores: int, name: str) -> list[str]:
    ours, theirs = row["kapi"], row["others"].get(name)
    ratios = row["ratios"].get(name, {})
    return [
        f"{row['title']} {_marks(ours or {}, cores)}".rstrip(),
        _value(ours, row["unit"]),
        _latencies(ours),
        name,
        _value(theirs, row["unit"]),
        _latencies(theirs),
        _times(ratios.get("value")),
        ", ".join(_times(ratios[key]) for key in ("p50", "p99") if key in ratios) or NOTHING,
        _times(ratios.get("processor")),
        _asked(row, name),
    ]


def _asked(row: dict[str, Any], compared_with: str) -> str:
    """Return the budget of a row: a ratio to what it is compared with, or a limit."""
    asked = []
    if budget := row["budgets"].get(compared_with):
        asked.append(f"≥ {budget:.3g}{TIMES}")
    if row["limit"] and compared_with == next(iter(row["others"]), NOTHING):
        asked.append(f"≤ {_value({'value': row['limit']}, row['unit'])}")
    return ", ".join(asked) or NOTHING


def _marks(figure: Figure, cores: int) -> str:
    """Return remarks on the reliability of a figure."""
    busy = "¹" if figure.get("client_cpu", 0) > BUSY else ""
    return busy + ("²" if figure.get("others_cpu", 0) > CROWDED * cores else "")


def _value(figure: Figure | None, unit: str) -> str:
    if figure is None:
        return NOTHING
    value = figure["value"]
    match unit:
        case "/s":
            return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"
        case "s":
            return f"{value:.2f} s"
        case "ms":
            return f"{_milliseconds(value)} ms"
        case "µs":
            return f"{value * 1e6:,.0f} µs"
        case "KiB":
            return f"{value / 2**10:,.0f} KiB"
        case "MiB":
            return f"{value / 2**20:,.0f} MiB"
        case _:
            return f"{value:,.0f} B"


def _latencies(figure: Figure | None) -> str:
    if figure is None or "p50" not in figure:
        return NOTHING
    return f"{_milliseconds(figure['p50'])} / {_milliseconds(figure['p99'])} ms"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g}" if seconds < 0.9995 else f"{seconds * 1000:,.0f}"


def _times(ratio: float | None) -> str:
    if ratio is None:
        return NOTHING
    return f"{ratio:.1f}{TIMES}" if ratio >= 1 else f"{ratio:.2f}{TIMES}"


def _machine(result: dict[str, Any]) -> str:
    machine, settings = result["machine"], result["settings"]
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, Python {machine['python']}, data on "
        f"{machine['filesystem']}; load {machine['load_before']} before and {machine['load_after']} after; "
        f"{settings['rounds']} {TIMES} {settings['seconds']:g} s a row."
    )


def _notes(result: dict[str, Any]) -> list[str]:
    notes = [f"No comparison with {name}: {why}." for name, why in result["left_out"].items()]
    marks = {mark for row in result["rows"] for mark in _marks(row["kapi"] or {}, result["machine"]["cores"])}
    notes += [text for mark, text in MARKS.items() if mark in marks]
    for row in result["rows"]:
        notes += [f"**{row['id']} could not be measured on {name}:** {why}" for name, why in row["failures"].items()]
    return [line for note in notes for line in ("", note)]
