"""The names of controllers, and `--controllers`."""

import pytest

from kapi.controlplane.controllers.controllerset import CONTROLLERS
from kapi.controlplane.controllers.names import NAMES, enabled_controllers
from kapi.controlplane.options import OptionError


def test_every_name_has_a_controller():
    assert CONTROLLERS.keys() == NAMES


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        ("*", set(NAMES), set()),
        ("", set(), set(NAMES)),
        ("-garbagecollector", set(NAMES) - {"garbage-collector-controller"}, {"garbage-collector-controller"}),
        ("*,-namespace-controller", set(NAMES) - {"namespace-controller"}, {"namespace-controller"}),
        ("namespace, podgc", {"namespace-controller", "pod-garbage-collector-controller"}, {"endpoints-controller"}),
        ("namespace,-namespace", {"namespace-controller"}, set()),
    ],
)
def test_controllers_are_enabled_by_name(text, on, off):
    chosen = enabled_controllers(text)
    assert on <= chosen
    assert not off & chosen
    assert chosen == on


def test_an_unknown_controller_is_refused_with_the_known_names():
    known = "is not in the list of known controllers: certificatesigningrequest-approving-controller, "
    with pytest.raises(OptionError, match=f'^--controllers: "gc" {known}'):
        enabled_controllers("*,-gc")


def test_a_way_to_enable_none_is_named_where_all_are_disabled_by_a_star():
    with pytest.raises(
        OptionError, match=r'^--controllers: "\*" is not in the list .*; to enable none: --controllers=$'
    ):
        enabled_controllers("-*")
