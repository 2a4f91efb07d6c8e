"""Cron schedules and time zones as CronJob accepts them.

`parse_schedule` reads the five-field form and the descriptors (`@daily`, `@every 1h`), gives the reasons for
refusal in kube-apiserver's words, and returns what a controller needs to know when the next run is due. Time zones
are looked up in the IANA data base, by exact spelling.
"""

from __future__ import annotations

import functools
import re
import zoneinfo
from typing import NamedTuple

from kapi.api.go.durations import SECOND, parse_duration
from kapi.api.go.text import quote

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES)}
_MAX_INT64 = 2**63 - 1
_is_integer = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_is_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII).fullmatch


class ScheduleError(ValueError):
    """A schedule that cannot be read; the text says why."""


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (_Bounds(0, 59, {}), _Bounds(0, 23, {}), _Bounds(1, 31, {}), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))


class Field(NamedTuple):
    """The values one field of a schedule allows; `star` when it was left open, which matters for days."""

    values: frozenset[int]
    star: bool


class Schedule(NamedTuple):
    """A schedule that was understood: five fields, or a plain interval in seconds."""

    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field
    every: float = 0.0
    zone: str = ""


def _all(bounds: _Bounds) -> Field:
    return Field(frozenset(range(bounds.low, bounds.high + 1)), star=True)


def _only(value: int) -> Field:
    return Field(frozenset({value}), star=False)


_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY = map(_all, _FIELDS)
_YEARLY = Schedule(_only(0), _only(0), _only(1), _only(1), _WEEKDAY)
_DAILY = Schedule(_only(0), _only(0), _DAY, _MONTH, _WEEKDAY)
_DESCRIPTORS = {
    "@yearly": _YEARLY,
    "@annually": _YEARLY,
    "@monthly": Schedule(_only(0), _only(0), _only(1), _MONTH, _WEEKDAY),
    "@weekly": Schedule(_only(0), _only(0), _DAY, _MONTH, _only(0)),
    "@daily": _DAILY,
    "@midnight": _DAILY,
    "@hourly": Schedule(_only(0), _HOUR, _DAY, _MONTH, _WEEKDAY),
}


@functools.lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """Read a schedule; raises `ScheduleError`."""
    if not text:
        raise ScheduleError("empty spec string")
    zone = ""
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, text = _split_zone(text)
    if text.startswith("@"):
        return _parse_descriptor(text)._replace(zone=zone)
    # Go splits on any white space, as `split` does.
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    minute, hour, day, month, weekday = map(_parse_field, parts, _FIELDS)
    return Schedule(minute, hour, day, month, weekday, zone=zone)


def _split_zone(text: str) -> tuple[str, str]:
    head, blank, rest = text.partition(" ")
    start = head.index("=") + 1
    if not blank:
        # kube-apiserver slices with a negative end here and reports its own panic.
        raise ScheduleError(f"invalid schedule format: runtime error: slice bounds out of range [{start}:-1]")
    zone = head[start:]
    problem = zone_problem(zone)
    if problem:
        raise ScheduleError(f"provided bad location {zone}: {problem}")
    return zone, rest.strip()


def _parse_descriptor(text: str) -> Schedule:
    known = _DESCRIPTORS.get(text)
    if known is not None:
        return known
    if text.startswith("@every "):
        try:
            seconds = parse_duration(text.removeprefix("@every ")) / SECOND
        except ValueError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from error
        # Shorter intervals than a second are a second.
        return Schedule(_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY, every=max(1.0, seconds // 1))
    raise ScheduleError(f"unrecognized descriptor: {text}")


def _parse_field(text: str, bounds: _Bounds) -> Field:
    values: set[int] = set()
    star = False
    for expression in filter(None, text.split(",")):
        some, is_star = _parse_range(expression, bounds)
        values.update(some)
        star = star or is_star
    return Field(frozenset(values), star)


def _parse_range(expression: str, bounds: _Bounds) -> tuple[range, bool]:
    span, *steps = expression.split("/")
    low, *highs = span.split("-")
    star = low in {"*", "?"}
    if star:
        start, end = bounds.low, bounds.high
    else:
        start = _number(low, bounds.names)
        if len(highs) > 1:
            raise ScheduleError(f"too many hyphens: {expression}")
        end = _number(highs[0], bounds.names) if highs else start
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {expression}")
    step = 1
    if steps:
        step = _number(steps[0], {})
        # "5/10" means from five on, every ten.
        end = end if highs else bounds.high
        star = star and step <= 1
    _check_range(expression, start, end, step, bounds)
    return range(start, end + 1, step), star


def _check_range(expression: str, start: int, end: int, step: int, bounds: _Bounds) -> None:
    if start < bounds.low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.low}): {expression}")
    if end > bounds.high:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.high}): {expression}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {expression}")


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not _is_integer(text):
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    # Beyond twenty digits a number is out of range whatever it is; do not compute it.
    value = int(text) if len(text) <= 20 else _MAX_INT64 + 1
    if abs(value) > _MAX_INT64:
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: value out of range")
    if value < 0:
        raise ScheduleError(f"negative number ({value}) not allowed: {text}")
    return value


# -- time zones -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def zone_problem(name: str) -> str:
    """Return why a time zone cannot be used, empty when it can. `UTC` and `Local` are always there."""
    if name in {"", "UTC", "Local"}:
        return ""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {name}"
    return ""


def time_zone_sentences(name: str) -> list[str]:
    """Return what is wrong with `spec.timeZone`."""
    if not name:
        return ["timeZone must be nil or non-empty string"]
    for part in name.split("/"):
        if part in {".", ".."} or part.startswith("-") or not _is_zone_part(part):
            return [f"unknown time zone {name}"]
    sentences = []
    if name.lower() == "local":
        sentences.append("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    problem = zone_problem(name)
    return [*sentences, problem] if problem else sentences
