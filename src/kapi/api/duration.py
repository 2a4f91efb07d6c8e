"""Durations for people: the AGE column, two or three significant figures and never more.

The unit grows with the time: seconds to two minutes, minutes to three hours, hours to two days, days to two years.
Between, while the larger unit is still coarse, the next smaller one is shown with it.
"""

from __future__ import annotations

_MINUTE = 60
_HOUR = 60 * _MINUTE


def human_duration(seconds: float) -> str:
    """A duration as tables show it: `105s`, `5m3s`, `76m`, `3h5m`, `30h`, `3d4h`, `100d`, `2y10d`, `9y`.

    Up to two seconds in the future counts as now, because clocks differ; more is `<invalid>`.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // _MINUTE, whole // _HOUR
    if minutes < 10:
        return _pair(minutes, "m", whole % _MINUTE, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _days(hours)


def _days(hours: int) -> str:
    days = hours // 24
    years = days // 365
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    if years < 8:
        return _pair(years, "y", days % 365, "d")
    return f"{years}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
