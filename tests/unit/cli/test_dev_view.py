"""The views of `kapi dev`: what is shown of objects, reconciles and events, and that it fits."""

import asyncio
import io

import pytest

from kapi.cli.dev.report import Reconciled
from kapi.cli.dev.view import LineView, ScreenView, fair_shares, status_of
from kapi.cli.screen import Screen, printable, table


def thing(name="a", **status):
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-02T03:04:05Z"}
    return {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": metadata, "status": status}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, "-"),
        ({"phase": "Bound"}, "Bound"),
        ({"address": "192.0.2.1", "peers": [1], "size": 3}, "address=192.0.2.1 size=3"),
        ({"conditions": [{"type": "Ready", "status": "True", "reason": "Done"}], "phase": "Bound"}, "Ready=True"),
        (
            {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "NoQuota"},
                    {"type": "Old", "status": "True"},
                ]
            },
            "Ready=False (NoQuota) Old=True",
        ),
    ],
)
def test_a_status_is_its_conditions_or_its_phase_or_its_first_fields(status, shown):
    assert status_of(thing(**status)) == shown


def test_an_object_that_is_being_deleted_is_terminating():
    obj = thing(phase="Bound")
    obj["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert status_of(obj) == "Terminating Bound"


def test_lines_are_printed_for_changes_that_they_show(capsys):
    view = LineView()
    view.changed(thing(phase="New"), is_deleted=False)
    view.changed({**thing(phase="New"), "spec": {"a": 1}}, is_deleted=False)
    view.reconciled(Reconciled("thing", "default", "a", "ok", 0.0123, 2))
    regarding = {"kind": "Thing", "namespace": "default", "name": "a"}
    view.event({"type": "Normal", "reason": "Made", "note": "it\nis \x1b[31mthere", "regarding": regarding})
    view.changed(thing(phase="New"), is_deleted=True)
    assert capsys.readouterr().out.splitlines() == [
        "object     Thing default/a  New",
        "reconcile  thing default/a  ok  12 ms  queue 2",
        "event      Thing default/a  Normal Made: it is  [31mthere",
        "object     Thing default/a  deleted",
    ]


def test_the_picture_fits_into_the_screen_and_counts_what_it_leaves_out():
    async def main():
        view = ScreenView(Screen(io.StringIO()), "title")
        for number in range(50):
            view.changed(thing(f"n{number:02}", phase="New"), is_deleted=False)
            view.reconciled(Reconciled("thing", "default", f"n{number:02}", "ValueError: no", 0.001, 50 - number))
            view.log(f"line {number}")
        view.changed(thing("n00"), is_deleted=True)
        return list(view.lines(40))

    lines = asyncio.run(main())
    assert len(lines) <= 40
    assert "... and 40 more" in lines
    assert ["thing", "1", "50", "50"] in [line.split() for line in lines]
    assert any(line.endswith("thing        default/n49   1 ms   ValueError: no") for line in lines)
    assert lines[-1] == "line 49"


def test_objects_that_others_own_come_last():
    async def main():
        view = ScreenView(Screen(io.StringIO()), "title")
        for number in range(50):
            owned = thing(f"n{number:02}")
            owned["metadata"]["ownerReferences"] = [{"kind": "Vpc"}]
            view.changed(owned, is_deleted=False)
        view.changed({**thing("z"), "kind": "Zoo"}, is_deleted=False)
        return list(view.lines(40))

    lines = asyncio.run(main())
    assert lines[4].split()[0] == "Zoo"
    assert len(lines) == 39  # no other section needs a line of its own


@pytest.mark.parametrize(
    ("wanted", "available", "shares"),
    [
        ([50, 50, 0, 50], 24, [8, 8, 0, 8]),
        ([3, 50, 1, 5], 24, [3, 15, 1, 5]),
        ([1, 0, 2, 0], 24, [1, 0, 2, 0]),
        ([9, 9, 9, 9], 1, [2, 2, 2, 2]),
    ],
)
def test_sections_leave_the_lines_that_they_do_not_need_to_others(wanted, available, shares):
    assert fair_shares(wanted, available) == shares


def test_a_screen_cuts_off_what_does_not_fit_and_is_left_as_it_was():
    stream = io.StringIO()
    with Screen(stream) as screen:
        screen.draw(["x" * 200] * 100)
    entered, drawn = stream.getvalue().split("\x1b[H")
    lines, left = drawn.split("\x1b[J")
    assert lines.split("\x1b[K\n") == ["x" * 79] * 23 + [""]
    assert (entered, left) == ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l")


def test_a_table_has_columns_as_wide_as_their_widest_cell():
    assert table([("NAME", "AGE"), ("a", "3s"), ("longer", "1h")]) == ["NAME     AGE", "a        3s", "longer   1h"]
    assert table([]) == []
    assert printable("a\tb\x1b[2J") == "a b [2J"
