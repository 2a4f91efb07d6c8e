from __future__ import annotations

from pathlib import Path

import pytest

from kapi.controlplane.options import OptionError, check_storage
from kapi.storage.etcd.address import Address, AddressError, parse_address


def test_an_address_names_endpoints_and_nothing_else_by_default() -> None:
    assert parse_address("etcd://h1:2379,h2:2380") == Address(("h1:2379", "h2:2380"), "/kapi")


def test_an_address_names_everything_that_is_needed_to_reach_a_store() -> None:
    found = parse_address(
        "etcd://h1,[::1]:5/a/b/?cacert=/ca.crt&cert=c.crt&key=c.key&user=me&password-file=/run/pw&timeout=2.5"
    )
    assert found == Address(
        ("h1:2379", "[::1]:5"), "/a/b", Path("/ca.crt"), Path("c.crt"), Path("c.key"), "me", Path("/run/pw"), 2.5
    )
    assert str(found) == "etcd://h1:2379,[::1]:5/a/b"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("etcd://", "expected HOST:PORT"),
        ("etcd://h1:0", "expected HOST:PORT"),
        ("etcd://h1:port", "expected HOST:PORT"),
        ("etcd://::1", "expected HOST:PORT"),
        ("etcd://h1,,h2", "expected HOST:PORT"),
        ("etcd://h1,h1:2379", "twice"),
        ("etcd://me:secret@h1", "password-file"),
        ("etcd://h1//x", "expected a prefix"),
        ("etcd://h1?ca=x", "expected one of the parameters cacert, cert, key"),
        ("etcd://h1?cacert=", "the value is missing"),
        ("etcd://h1?cacert=x&cert=y", "both or neither"),
        ("etcd://h1?cert=x&key=y", "cert needs cacert"),
        ("etcd://h1?user=x", "both or neither"),
        ("etcd://h1?timeout=soon", "from 1 to 60"),
        ("etcd://h1?timeout=0.5", "from 1 to 60"),
        ("http://h1", "such as etcd://"),
    ],
)
def test_a_mistake_in_an_address_is_named(text: str, why: str) -> None:
    with pytest.raises(AddressError, match=why):
        parse_address(text)


@pytest.mark.parametrize("text", ["etcd://me:hunter2@h1", "etcd://me:hunter2@h1#x", "etcd://me:hun@ter2@h1:2379/p"])
def test_a_password_in_an_address_is_not_repeated_in_the_error(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_storage(text)
    assert "ter2" not in str(caught.value)
    assert "h1" in str(caught.value)
