"""The class Vpc: what is sent, and what is read."""

import msgspec
from samples import sample

from vpc.api.vpc_v1 import Vpc


def test_an_object_is_read_as_it_was_sent() -> None:
    sent = sample(Vpc, "a")
    assert msgspec.json.decode(msgspec.json.encode(sent), type=Vpc) == sent


def test_an_object_names_its_kind() -> None:
    sent = msgspec.to_builtins(sample(Vpc, "a"))
    assert (sent["apiVersion"], sent["kind"]) == ("network.example.com/v1", "Vpc")
