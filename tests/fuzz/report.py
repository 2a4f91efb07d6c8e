"""What a run prints: requests by verb, kind and class of status, the longest step of the event loop, memory, and the seed."""

from collections import Counter

MIB = 1 << 20
CLASSES = ("2xx", "3xx", "4xx", "5xx", "closed")
KINDS = 20
"""How many kinds are printed by name."""


def table(title, counts):
    """Lines of a table: one per name, one column per class of status."""
    totals = Counter()
    for (name, _), count in counts.items():
        totals[name] += count
    shown = [name for name, _ in totals.most_common(KINDS)]
    rows = [(name, {status: counts[name, status] for status in CLASSES}) for name in shown]
    rest = {
        status: sum(count for (name, one), count in counts.items() if one == status and name not in shown)
        for status in CLASSES
    }
    if any(rest.values()):
        rows.append((f"{len(totals) - len(shown)} others", rest))
    width = max([len(title), *(len(name) for name, _ in rows)])
    lines = [f"{title:{width}} " + "".join(f"{status:>8}" for status in CLASSES)]
    return lines + [f"{name:{width}} " + "".join(f"{row[status]:8}" for status in CLASSES) for name, row in rows]


def lines(statistics, seed, seconds):
    """The whole report."""
    by_verb, by_kind = Counter(), Counter()
    for (verb, kind, status), count in statistics.requests.items():
        by_verb[verb, status] += count
        by_kind[kind, status] += count
    waits = sorted(statistics.waits) or [0.0]
    memory = [size / MIB for size in statistics.memory] or [0.0]
    kinds = len({kind for _, kind, _ in statistics.requests})
    return [
        *table("verb", by_verb),
        "",
        *table("kind", by_kind),
        "",
        f"seed {seed}: {statistics.sent} requests of {kinds} kinds in {seconds:.0f} s, {statistics.restarts} restarts",
        f"compared: {statistics.compared} acknowledged writes, {statistics.events} watch events",
        f"longest step of the event loop: {statistics.loop_step * 1000:.0f} ms of CPU",
        f"longest lag of the event loop, as the server measured it: {statistics.lag * 1000:.0f} ms on the wall",
        f"canary: {len(waits)} requests, p50 {_at(waits, 0.5)}, p99 {_at(waits, 0.99)}, longest {_at(waits, 1)} on the wall",
        f"memory: {memory[0]:.0f} MiB at the start, {max(memory):.0f} at most, {memory[-1]:.0f} at the end",
    ]


def _at(ordered, share):
    return f"{ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000:.1f} ms"


def finding_lines(finding):
    """What failed, and in which requests."""
    return ["", f"FAILED {finding}", f"  requests in flight: {list(finding.numbers)}", f"  {finding.detail[:3000]}"]
