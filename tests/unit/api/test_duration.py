import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.duration import human_duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2.5, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (105.9, "105s"),
        (119, "119s"),
        (120, "2m"),
        (5 * MINUTE + 3, "5m3s"),
        (10 * MINUTE + 3, "10m"),
        (76 * MINUTE, "76m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (30 * HOUR, "30h"),
        (3 * DAY, "3d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (100 * DAY, "100d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 10 * DAY, "2y10d"),
        (9 * YEAR + 10 * DAY, "9y"),
    ],
)
def test_ages_keep_two_or_three_figures(seconds, text):
    assert human_duration(seconds) == text


@given(st.integers(0, 20 * YEAR), st.integers(0, 20 * YEAR))
def test_a_longer_time_never_prints_as_a_shorter_one(first, second):
    def lower_bound(text):
        units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}
        total, digits = 0, ""
        for character in text:
            if character.isdigit():
                digits += character
            else:
                total, digits = total + int(digits) * units[character], ""
        return total

    short, long = sorted((first, second))
    assert lower_bound(human_duration(short)) <= lower_bound(human_duration(long))
    assert lower_bound(human_duration(short)) <= short
