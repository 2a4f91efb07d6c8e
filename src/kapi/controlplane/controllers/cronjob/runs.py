"""The times at which a schedule starts Jobs: the next one after a moment, and the one that is due.

Pure computation on whole Unix seconds. The rules are those of the package that Kubernetes uses (robfig/cron v3),
including what it does when clocks are changed: a time that is skipped is not made up for on that day, and an hour that
comes twice counts twice. Nothing here takes longer because the schedule, or the time since the last start, is unusual:
a search ends after five years, and missed starts are counted by their interval and not one by one.
"""

from __future__ import annotations

import datetime as dt
import functools
import zoneinfo
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.registry.kinds.batch.cron import ScheduleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.registry.kinds.batch.cron import Schedule

YEARS: Final = 5
"""A schedule that has no start in so many years has none."""
MANY_MISSED: Final = 100
"""More missed starts than these are reported: a clock may be wrong."""

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the wall clock of whichever zone it is used for
_UTC_EPOCH: Final = _EPOCH.replace(tzinfo=dt.UTC)
_FIRST: Final = -2208988800
"""1900-01-01. Time zones are not computed for earlier times, which an edited status may have."""
_LAST_YEAR: Final = 9990
_MINUTE, _HOUR, _DAY_HOURS, _NOON = 60, 3600, 24, 12
_ONE_BY_ONE: Final = 20
"""So many starts are computed one after the other; of more than these, the last is found by bisection."""


def next_run(schedule: Schedule, after: int) -> int | None:
    """Return the first start after a moment; None if there is none within five years."""
    if schedule.every:
        return after + int(schedule.every)
    if not _has_runs(schedule) or not _FIRST <= after < _seconds(_EPOCH.replace(year=_LAST_YEAR)):
        return None
    return _Search(schedule, after + 1).run()


def zone_named(name: str) -> dt.tzinfo:
    """Return a time zone. No name and `Local` are UTC: a schedule must not depend on the machine that it runs on."""
    return dt.UTC if name in {"", "UTC", "Local"} else zoneinfo.ZoneInfo(name)


def _has_runs(schedule: Schedule) -> bool:
    """Return False for fields without values, as "," is one: no time matches, and a search would try every minute."""
    day, weekday = schedule.day_of_month, schedule.day_of_week
    days = bool(day.values), bool(weekday.values)
    has_days = all(days) if day.star or weekday.star else any(days)
    return has_days and bool(schedule.minute.values and schedule.hour.values and schedule.month.values)


class _Search:
    """The search for the next start: each field is advanced until it matches, from months to minutes.

    A field that overflows begins again with the month. Months and days are steps of the calendar, hours and minutes
    steps of time. That, and where the smaller fields are set to zero, decides what happens when clocks are changed, so
    the steps are those of robfig/cron.
    """

    def __init__(self, schedule: Schedule, start: int) -> None:
        self._schedule = schedule
        self._offset = _offsets(schedule.zone)
        self._is_rounded = False
        """True once the fields smaller than the one that was advanced first are zero."""
        self._move(start)

    def run(self) -> int | None:
        """Return the first moment that matches, from the start on."""
        limit = self._wall.year + YEARS
        while self._wall.year <= limit:
            if self._find_month() and self._find_day() and self._find_hour() and self._find_minute():
                return self._at
        return None

    def _move(self, at: int) -> None:
        self._at = at
        self._wall = _EPOCH + dt.timedelta(seconds=at + self._offset(at))

    def _move_to(self, wall: dt.datetime) -> None:
        """Move to a time on the wall clock; one that is skipped or comes twice is read as Go's `time.Date` reads it."""
        as_utc = _seconds(wall)
        self._move(as_utc - self._offset(as_utc - self._offset(as_utc)))

    def _round(self, wall: dt.datetime) -> None:
        if not self._is_rounded:
            self._is_rounded = True
            self._move_to(wall)

    # Each of these returns False when a larger field has changed, and has to be looked at again.

    def _find_month(self) -> bool:
        while self._wall.month not in self._schedule.month.values:
            self._round(self._wall.replace(day=1, hour=0, minute=0, second=0))
            year, month = divmod(self._wall.year * 12 + self._wall.month, 12)
            days = dt.timedelta(days=self._wall.day - 1)
            self._move_to(self._wall.replace(year=year, month=month + 1, day=1) + days)
            if self._wall.month == 1:
                return False
        return True

    def _find_day(self) -> bool:
        while not self._day_matches():
            self._round(self._wall.replace(hour=0, minute=0, second=0))
            before = self._at
            self._move_to(self._wall + dt.timedelta(days=1))
            # Midnight may not exist on that day.
            hour = self._wall.hour
            if hour:
                self._move(self._at + (_DAY_HOURS - hour if hour > _NOON else -hour) * _HOUR)
            if self._at <= before:
                # Samoa had no 30 December 2011. robfig/cron does not come past such a day: it searches for ever.
                self._move(before + _DAY_HOURS * _HOUR)
            if self._wall.day == 1:
                return False
        return True

    def _day_matches(self) -> bool:
        """Return True if the day matches: both fields if one is open, as `*` is; either of two that are not."""
        day, weekday = self._schedule.day_of_month, self._schedule.day_of_week
        matches = self._wall.day in day.values, self._wall.isoweekday() % 7 in weekday.values
        return all(matches) if day.star or weekday.star else any(matches)

    def _find_hour(self) -> bool:
        while self._wall.hour not in self._schedule.hour.values:
            self._round(self._wall.replace(minute=0, second=0))
            self._move(self._at + _HOUR)
            if self._wall.hour == 0:
                return False
        return True

    def _find_minute(self) -> bool:
        while self._wall.minute not in self._schedule.minute.values:
            if not self._is_rounded:
                self._is_rounded = True
                self._move(self._at - self._at % _MINUTE)
            self._move(self._at + _MINUTE)
            if self._wall.minute == 0:
                return False
        if self._wall.second:
            # The minute matches and has begun; the next one may not match.
            self._is_rounded = True
            self._move(self._at + _MINUTE - self._wall.second)
            return False
        return True


def _seconds(wall: dt.datetime) -> int:
    return (wall - _EPOCH) // dt.timedelta(seconds=1)


@functools.lru_cache(maxsize=1024)
def _offsets(name: str) -> Callable[[int], int]:
    """Return a function from a moment to the offset of a time zone from UTC, in seconds."""
    zone = zone_named(name)
    if zone is dt.UTC:
        return lambda _: 0

    def offset(at: int) -> int:
        moment = (_UTC_EPOCH + dt.timedelta(seconds=at)).astimezone(zone)
        return (moment.utcoffset() or dt.timedelta()) // dt.timedelta(seconds=1)

    return offset


# -- the start that is due --------------------------------------------------------------------------------------------


class Due(NamedTuple):
    """The last start up to now, None if there is none; and about how many starts before it were missed."""

    run: int | None
    missed: int


def due_run(schedule: Schedule, since: int, now: int) -> Due:
    """Return the last start after a moment and up to now; raises `ScheduleError` for a schedule without starts.

    As in Kubernetes, the number of missed starts is the time since the first divided by the first interval, and the
    last start is looked for within the last two such intervals. Of an irregular schedule (`0 8-16/4 * * 1-5`) there may
    be none, and then the missed start is not made up for.
    """
    since = max(since, _FIRST)
    first = next_run(schedule, since)
    if first is None and since <= now:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if first is None or now < first:
        return Due(None, 0)
    second = next_run(schedule, first)
    if second is None:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < second:
        return Due(first, 0)
    interval = second - first
    missed = (now - first) // interval + 1
    return Due(_last_run(schedule, first + (missed - 2) * interval, now), missed)


def _last_run(schedule: Schedule, after: int, now: int) -> int | None:
    """Return the last start after a moment and up to now."""
    last, run = None, next_run(schedule, after)
    for _ in range(_ONE_BY_ONE):
        if run is None or run > now:
            return last
        last, run = run, next_run(schedule, run)
    low, high = after if last is None else last, now
    while low < high:
        # `low` is a start, and there is none between `high` and now.
        middle = (low + high) // 2
        run = next_run(schedule, middle)
        if run is not None and run <= now:
            low = run
        else:
            high = middle
    return low


def next_due(schedule: Schedule, since: int, now: int) -> int | None:
    """Return the time of the next start, which is later than now; None if there is none."""
    try:
        due = due_run(schedule, since, now)
    except ScheduleError:
        return next_run(schedule, now)
    if due.run is not None:
        return next_run(schedule, due.run)
    return next_run(schedule, now if due.missed else since)
