"""The command: `make fuzz ARGS="--seconds 600 --seed 7"`, `make fuzz ARGS="--replay FILE"`."""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from . import report
from .driver import MIB, Bounds
from .session import Session


def options(arguments):
    parser = argparse.ArgumentParser(
        prog="make fuzz", description="Send random valid and hostile requests to a live server."
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to send requests (60)")
    parser.add_argument("--requests", type=int, default=1 << 62, help="end after this many requests")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same seed, the same requests")
    parser.add_argument("--clients", type=int, default=Bounds.clients, help="requests in flight at once (4)")
    parser.add_argument("--kinds", default="", help="only these, by plural name: configmaps,leases")
    parser.add_argument(
        "--stall", type=float, default=Bounds.stall * 1000, help="CPU milliseconds the event loop may be held (250)"
    )
    parser.add_argument("--memory", type=int, default=Bounds.memory // MIB, help="resident MiB of the server (1024)")
    parser.add_argument("--compare", type=int, default=Bounds.compare, help="requests between comparisons (1000)")
    parser.add_argument(
        "--findings", type=int, default=Bounds.findings, help="different failures after which to end (1)"
    )
    parser.add_argument(
        "--minimise-seconds", type=float, default=120, help="to find the shortest sequence (120); 0 for none"
    )
    parser.add_argument("--shrink-seconds", type=float, default=60, help="to make its requests smaller (60)")
    parser.add_argument("--storage", default="sqlite", help="sqlite or memory")
    parser.add_argument("--dir", type=Path, default=Path(), help="where reproducers are written")
    parser.add_argument("--replay", type=Path, help="send the requests of a reproducer instead")
    return parser.parse_args(arguments)


async def run(settings, folder):
    session = Session(folder, settings)
    began = time.monotonic()
    drive = await (session.replay(settings.replay) if settings.replay else session.fuzz())
    print("\n".join(report.lines(drive.statistics, settings.seed, time.monotonic() - began)), flush=True)
    for finding in drive.findings:
        print("\n".join(report.finding_lines(finding)), flush=True)
        if settings.minimise_seconds and not settings.replay:
            path = await session.write_reproducer(finding, drive.statistics.sent)
            print(
                f"  reproducer: make fuzz ARGS='--replay {path}'" if path else "  did not fail again on a fresh server",
                flush=True,
            )
    print(f"{len(drive.findings)} failures" if drive.findings else "no failures", flush=True)
    return 1 if drive.findings else 0


def main():
    settings = options(sys.argv[1:])
    print(f"seed {settings.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="kapi-fuzz-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(run(settings, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
