"""How addresses are divided, and which backend is chosen."""

import pytest

from vpc.backends.contract import divide
from vpc.controllers.vpc_controller import backend_of_environment


@pytest.mark.parametrize(
    ("cidr", "number", "subnets"),
    [
        ("10.0.0.0/16", 1, ["10.0.0.0/16"]),
        ("10.0.0.0/16", 2, ["10.0.0.0/17", "10.0.128.0/17"]),
        ("10.0.0.0/24", 3, ["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"]),
        ("2001:db8::/32", 2, ["2001:db8::/33", "2001:db8:8000::/33"]),
    ],
)
def test_addresses_are_divided_evenly(cidr: str, number: int, subnets: list[str]) -> None:
    assert [str(one) for one in divide(cidr, number)] == subnets


@pytest.mark.parametrize("cidr", ["10.0.0.0/31", "10.0.0.1/16", "nonsense"])
def test_addresses_that_cannot_be_divided_are_refused(cidr: str) -> None:
    with pytest.raises(ValueError, match=r"too few|host bits|does not appear"):
        divide(cidr, 2)


def test_a_backend_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPC_BACKEND", "solaris")
    with pytest.raises(ValueError, match="expected simulated or linux"):
        backend_of_environment()
