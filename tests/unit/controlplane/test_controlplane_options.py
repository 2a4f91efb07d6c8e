"""The options of a control plane: what is read, what is refused, and in which words."""

from pathlib import Path

import pytest

from kapi.controlplane.options import OptionError, Options, check_storage, parse_bind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:6443", ("127.0.0.1", 6443)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("0.0.0.0:443", ("0.0.0.0", 443)),
    ],
)
def test_addresses(text, expected):
    assert parse_bind(text) == expected


@pytest.mark.parametrize(
    "text", ["", "6443", ":6443", "localhost", "localhost:", "localhost:x", "localhost:65536", "localhost:-1", "a:²"]
)
def test_addresses_that_are_none(text):
    with pytest.raises(OptionError, match=r"expected HOST:PORT with a port from 0 to 65535, such as 127\.0\.0\.1:6443"):
        parse_bind(text)


@pytest.mark.parametrize("text", ["sqlite", "memory"])
def test_stores(text):
    assert check_storage(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "expected sqlite, memory or etcd"), ("postgres", "expected"), ("etcd://x:y", "expected HOST:PORT")],
)
def test_stores_that_are_none(text, why):
    with pytest.raises(OptionError, match=why):
        check_storage(text)


def test_kubeconfig_is_with_the_data_unless_said():
    assert Options(data_dir=Path("d")).kubeconfig_path == Path("d/admin.kubeconfig")
    assert Options(data_dir=Path("d"), kubeconfig=Path("k")).kubeconfig_path == Path("k")
