"""The command: `python -m bench`, or `make bench ARGS=…`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import checkout, compare, flame, kube_apiserver, libraries, machine, report, scale, settings
from bench.baselines import Uvicorn
from bench.rows import GROUPS
from bench.runner import Bench
from bench.target import Kapi, Target
from kapi import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.table import Group

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(".peers/bench-data")
WITHOUT = ("kube-apiserver", "uvicorn", "sqlite", "clients")


def main() -> int:
    """Measure and print; fails only if a row could not be measured, however slow it was."""
    options = _options()
    _raise_file_limit()
    if options.compare or options.compiled:
        return _compare(options)
    if options.scale:
        return _scale(options)
    if options.flame:
        return _flame(options)
    groups = [group for group in GROUPS if group.name in options.rows]
    try:
        python = checkout.version(options.python)
    except checkout.NoSuchTree as error:
        sys.stderr.write(f"--python: {error}\n")
        return 1
    Kapi.python = options.python
    folder = _data_folder(options) / str(os.getpid())
    folder.mkdir()
    about = machine.describe(folder, python)
    bench, compared, left_out = _bench(options, folder, groups)
    try:
        for group in groups:
            rows = [row.id for row in group.rows(bench.settings)]
            sys.stderr.write(f"{group.name}\n")
            group.measure(bench, rows)
    finally:
        bench.close()
    result = {
        "kapi": __version__,
        "machine": about | {"load_after": machine.load()},
        "settings": dataclasses.asdict(bench.settings),
        "compared": compared,
        "left_out": left_out,
        "rows": report.rows_of(bench, [row for group in groups for row in group.rows(bench.settings)]),
    }
    return _publish(result, options)


def _data_folder(options: argparse.Namespace) -> Path:
    """Where servers keep their data during the run."""
    folder: Path = options.dir or ROOT / DATA
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _compare(options: argparse.Namespace) -> int:
    """Compare this tree with another, or compiled with itself."""
    try:
        theirs = checkout.find(options.compare, ROOT) if options.compare else checkout.this_tree(ROOT, "plain Python")
        ours = checkout.compiled(ROOT) if options.compiled else checkout.this_tree(ROOT)
    except checkout.NoSuchTree as error:
        sys.stderr.write(f"cannot compare: {error}\n")
        return 1
    folder = _data_folder(options) / str(os.getpid())
    folder.mkdir()
    seconds, rounds = (0.0, 2) if options.quick else (compare.SECONDS, compare.FEWEST_ROUNDS)
    comparison = compare.Comparison(
        theirs,
        ours,
        root=ROOT,
        folder=folder,
        seconds=options.seconds or seconds,
        rounds=options.rounds or rounds,
    )
    return compare.run(options, comparison)


def _scale(options: argparse.Namespace) -> int:
    """Measure how costs grow."""
    with tempfile.TemporaryDirectory(dir=_data_folder(options)) as folder:
        sizes = scale.QUICK if options.quick else scale.Sizes()
        return scale.run(options, scale.Scale(sizes, root=ROOT, folder=Path(folder)), is_bound=not options.quick)


def _flame(options: argparse.Namespace) -> int:
    """Draw where the time of requests goes."""
    with tempfile.TemporaryDirectory(dir=_data_folder(options)) as folder:
        pinning = machine.Pinning.halves()
        bench = Bench(settings.Settings(), root=ROOT, folder=Path(folder), targets=[], pinning=pinning)
        try:
            return flame.run(options, bench, ROOT)
        finally:
            bench.close()


def _options() -> argparse.Namespace:
    groups = [group.name for group in GROUPS]
    parser = argparse.ArgumentParser(prog="bench", description="Measure Kapi, as ratios.")
    parser.add_argument("--quick", action="store_true", help="a smoke test: every row, tiny numbers")
    parser.add_argument(
        "--seconds",
        type=float,
        help="how long each row runs in each round (3; 0.3 with --quick); in all with --compare (5)",
    )
    parser.add_argument(
        "--rounds", type=int, help="how often targets take turns (3; 1 with --quick); at least, with --compare (6)"
    )
    parser.add_argument(
        "--compare", metavar="REV", help="compare this tree with a commit, a source tree, or a Python with Kapi in it"
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="compile this tree for a comparison; without --compare it is compared with plain Python",
    )
    parser.add_argument("--scale", action="store_true", help="measure how costs grow; fail if one grows too fast")
    parser.add_argument("--flame", type=Path, metavar="FOLDER", help="draw where the time of requests goes")
    parser.add_argument(
        "--rows",
        help=f"some of {','.join(groups)}; with --compare of {','.join(compare.ROWS)}; "
        f"with --scale of {','.join(scale.SECTIONS)}; with --flame of {','.join(flame.ROWS)}",
    )
    parser.add_argument(
        "--without", type=_names(WITHOUT), default=[], help=f"comparisons to leave out: {','.join(WITHOUT)}"
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PATH",
        help="the Python of Kapi's servers, one that has Kapi in it; that of this virtual environment unless given",
    )
    parser.add_argument("--pin", action="store_true", help="half of the cores for servers, the other half for the load")
    parser.add_argument("--dir", type=Path, help="where servers keep their data during the run; use a real disk")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    known, default = _rows(options, groups)
    try:
        options.rows = _names(known)(options.rows) if options.rows else list(default)
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --rows: {error}")
    return options


def _rows(options: argparse.Namespace, groups: list[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The rows that there are, and those that are measured unless some are named."""
    if options.flame:
        return tuple(flame.ROWS), flame.DEFAULT_ROWS
    known = tuple(compare.ROWS if options.compare or options.compiled else scale.SECTIONS if options.scale else groups)
    return known, known


def _names(known: Any) -> Any:
    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
        return chosen

    return parse


def _raise_file_limit() -> None:
    """A thousand watchers are a thousand open files in two processes; children inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16_384 if hard == resource.RLIM_INFINITY else min(hard, 16_384)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bench(
    options: argparse.Namespace, folder: Path, groups: list[Group]
) -> tuple[Bench, dict[str, Any], dict[str, str]]:
    """The run, what Kapi is compared with in it, and what it is not compared with and why."""
    size = settings.quick() if options.quick else settings.Settings()
    given = {name: getattr(options, name) for name in ("seconds", "rounds") if getattr(options, name)}
    size = dataclasses.replace(size, **given)
    left_out: dict[str, str] = {}
    found, why = (None, "left out") if "kube-apiserver" in options.without else kube_apiserver.find()
    targets: list[Target] = [Kapi()]
    compared: dict[str, Any] = {}
    uvicorn = None
    if found is not None:
        targets.append(found)
        compared[found.name] = found.versions()
    else:
        left_out["kube-apiserver"] = why
        if "uvicorn" in options.without:
            left_out["uvicorn"] = "left out"
        elif any(group.name == "get" for group in groups):
            uvicorn = Uvicorn(ROOT)
            if reason := uvicorn.install():
                left_out["uvicorn"] = reason
                uvicorn = None
    chosen: list[libraries.Library] = []
    if any(group.name == "client" for group in groups):
        if "clients" in options.without:
            left_out |= dict.fromkeys((*libraries.OTHERS, libraries.CONTROLLER_RUNTIME), "left out")
        else:
            chosen, missing = libraries.others(ROOT)
            left_out |= missing
            built, why = libraries.controller_runtime(ROOT)
            if built is None:
                left_out[libraries.CONTROLLER_RUNTIME] = why
            else:
                chosen.insert(0, built)
    for name, reason in left_out.items():
        sys.stderr.write(f"no comparison with {name}: {reason}\n")
    bench = Bench(
        size,
        root=ROOT,
        folder=folder,
        targets=targets,
        uvicorn=uvicorn,
        sqlite=found is None and "sqlite" not in options.without,
        libraries=chosen,
        pinning=machine.Pinning.halves() if options.pin else None,
    )
    return bench, compared, left_out


def _publish(result: dict[str, Any], options: argparse.Namespace) -> int:
    table = report.markdown(result)
    sys.stdout.write(table)
    for path, text in ((options.json, json.dumps(result, indent=1) + "\n"), (options.markdown, table)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if any(row["failures"] for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
