"""Profiles of this process, as text: where CPU time is spent, what tasks and threads wait for, what memory holds.

Needs the standard library alone, and shows names of functions, files and lines but never a value: a variable may be a
password. Everything is bounded, so that looking at a process in trouble does not make it worse.
"""

from __future__ import annotations

import asyncio
import gc
import linecache
import resource
import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.controller.fence import Fenced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

SAMPLE_SECONDS: Final = 0.005
"""The time between two looks at the threads: the length of a turn with the interpreter's lock."""
MAX_DEPTH: Final = 100
MAX_STACKS: Final = 20_000
MAX_TASKS: Final = 10_000
TOP: Final = 40

_TOO_MANY: Final = "(other stacks)"
_FENCE: Final = Fenced.__await__.__code__


class CPUProfile:
    """Samples the stacks of all threads from a thread of its own, between `start` and `stop`.

    Each stack is charged with the CPU time that its thread has used since the last look, as the kernel counts it; where
    the kernel does not tell, with the time that has passed, whether the thread worked or waited.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="kapi profile", daemon=True)
        self._spent: dict[int, int] = {}
        self._stacks: Counter[str] = Counter()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the thread."""
        self._stop.set()
        self._thread.join()

    def text(self) -> str:
        """Return collapsed stacks: one per line, outermost function first, with microseconds of CPU time.

        It is what flame graph tools and speedscope read.
        """
        found = ((stack, nanoseconds // 1000) for stack, nanoseconds in self._stacks.most_common())
        return "".join(f"{stack} {microseconds}\n" for stack, microseconds in found if microseconds)

    def _sample(self) -> None:
        names: dict[CodeType, str] = {}
        self._look({})  # what was spent before counts for nothing
        while not self._stop.wait(SAMPLE_SECONDS):
            self._look(names)

    def _look(self, names: dict[CodeType, str]) -> None:
        spent = {thread.ident: (thread.name, self._since(thread)) for thread in threading.enumerate()}
        # Nothing that lets other threads run may come in between: a frame whose function returns loses its callers.
        frames = sys._current_frames()  # noqa: SLF001 - the documented way
        for ident, frame in frames.items():
            thread, nanoseconds = spent.get(ident, ("", 0))
            if nanoseconds > 0:
                self._charge(thread, frame, nanoseconds, names)
        del frames  # frames keep everything alive that their functions hold

    def _since(self, thread: threading.Thread) -> int:
        """The CPU time of a thread since this was last asked; none for the thread of this profile."""
        if thread is self._thread or thread.native_id is None:
            return 0
        total = _cpu_nanoseconds(thread.native_id)
        if total is None:
            return int(SAMPLE_SECONDS * 1e9)
        before = self._spent.get(thread.native_id, total)
        self._spent[thread.native_id] = total
        return total - before

    def _charge(self, thread: str, frame: FrameType, nanoseconds: int, names: dict[CodeType, str]) -> None:
        stack: list[str] = []
        current: FrameType | None = frame
        while current is not None and len(stack) < MAX_DEPTH:
            code = current.f_code
            name = names.get(code)
            if name is None:
                name = names[code] = f"{code.co_qualname} ({_short(code.co_filename)})".replace(";", ",")
            stack.append(name)
            current = current.f_back
        text = ";".join([thread.replace(";", ","), *reversed(stack)])
        if text not in self._stacks and len(self._stacks) >= MAX_STACKS:
            text = _TOO_MANY
        self._stacks[text] += nanoseconds


def _cpu_nanoseconds(native_id: int) -> int | None:
    """Return the CPU time of a thread; None where the kernel does not tell.

    Not `time.pthread_getcpuclockid`: for a thread that has just ended, it may crash the process.
    """
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def tasks() -> str:
    """Return the tasks of the running event loop, those with one stack together, with the chain of what they await."""
    groups: dict[tuple[str, ...], list[str]] = {}
    all_tasks = list(asyncio.all_tasks())
    for task in all_tasks[:MAX_TASKS]:
        groups.setdefault(tuple(_awaits(task.get_coro())), []).append(task.get_name())
    lines = [f"{len(all_tasks)} tasks\n"]
    for stack, found in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        shown = sorted(found)[:5]
        more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
        lines.append(f"\n{len(found)} @ {', '.join(shown)}{more}\n")
        lines += [f"    {place}\n" for place in stack]
    return "".join(lines)


def _awaits(awaited: Any) -> Iterator[str]:
    """The places where a coroutine and everything that it awaits wait; then what the innermost one waits for."""
    for _ in range(MAX_DEPTH):
        frame: FrameType | None = next(
            (found for name in ("cr_frame", "gi_frame", "ag_frame") if (found := getattr(awaited, name, None))), None
        )
        if frame is None:
            if awaited is not None:
                yield f"waits for {type(awaited).__name__}"
            return
        yield _place(frame, frame.f_lineno)
        if frame.f_code is _FENCE:
            awaited = frame.f_locals["self"].awaitable
        else:
            awaited = next(
                (found for name in ("cr_await", "gi_yieldfrom", "ag_await") if (found := getattr(awaited, name, None))),
                None,
            )


def threads() -> str:
    """Return the threads of the process with their stacks, outermost function first."""
    frames = sys._current_frames()  # noqa: SLF001 - the documented way
    lines = [f"{len(frames)} threads\n"]
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        lines.append(f"\n{thread.name}{' (daemon)' if thread.daemon else ''}\n")
        lines += [f"    {place}\n" for place in reversed(list(_places(frame)))]
    del frames
    return "".join(lines)


def _places(frame: FrameType | None) -> Iterator[str]:
    for _ in range(MAX_DEPTH):
        if frame is None:
            return
        yield _place(frame, frame.f_lineno)
        frame = frame.f_back


def _place(frame: FrameType, line: int) -> str:
    code = frame.f_code
    source = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_qualname} ({_short(code.co_filename)}:{line}){f'  {source}' if source else ''}"


def memory() -> str:
    """Return the memory of the process: its size, the collector's counts, the commonest types, and the allocations.

    Allocations are known only if `tracemalloc` was started. Counting types takes about 0.1 s for a million objects, so
    call it in a thread.
    """
    objects = gc.get_objects()
    types = Counter(map(type, objects))
    total = len(objects)
    del objects
    lines = [
        f"resident: {_resident_kib():,} KiB, at most {_peak_kib():,} KiB so far\n",
        f"objects that the collector tracks: {total:,}; of its generations: {gc.get_count()}\n",
    ]
    lines += [f"    generation {number}: {_stats(stats)}\n" for number, stats in enumerate(gc.get_stats())]
    lines.append("\nby type\n")
    lines += [f"{count:>12,}  {kind.__module__}.{kind.__qualname__}\n" for kind, count in types.most_common(TOP)]
    return "".join([*lines, *_allocations()])


def _stats(stats: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in stats.items())


def _allocations() -> Iterable[str]:
    if not tracemalloc.is_tracing():
        yield "\nby allocation: unknown; start the program with PYTHONTRACEMALLOC=1 to know\n"
        return
    now, peak = tracemalloc.get_traced_memory()
    yield f"\nby allocation: {now // 1024:,} KiB, at most {peak // 1024:,} KiB so far\n"
    for found in tracemalloc.take_snapshot().statistics("lineno")[:TOP]:
        place = found.traceback[0]
        yield f"{found.size // 1024:>12,} KiB in {found.count:,}  {_short(place.filename)}:{place.lineno}\n"


def _resident_kib() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return _peak_kib()
    return pages * resource.getpagesize() // 1024


def _peak_kib() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def _short(filename: str) -> str:
    """The last parts of a path, which say enough: the package and the module."""
    return "/".join(Path(filename).parts[-2:])
