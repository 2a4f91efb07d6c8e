"""The contract between the controller and what makes networks, and the ways in which that fails.

BackendError               reason in the condition
├── Unavailable            Unavailable        not reached, no answer in time, 5xx
├── TooManyRequests        TooManyRequests    429; `retry_after` if the answer says so
├── Unauthorized           Unauthorized       401, 403
├── QuotaExceeded          QuotaExceeded      the project may not have one more
├── AddressOverlap         AddressOverlap     another subnet of the network has these addresses
├── InUse                  InUse              there are ports in it
└── Rejected               Rejected           any other refusal
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class Wanted:
    """A network as an object describes it."""

    uid: str
    """The object's UID: what is created carries it, so that it is found again whatever became of the status."""
    namespace: str
    name: str
    cidr: str
    gateway: str = ""
    network_id: str = ""
    """The id in the object's status, if there is one."""


@dataclass(frozen=True, slots=True)
class Actual:
    """A network as it is, and what had to be done to make it so."""

    network_id: str
    subnet_id: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that a network was made for."""

    uid: str
    namespace: str


class Backend(Protocol):
    """Makes networks. Every method may be called again at any time, also after it failed half-way.

    At most one network is left for a UID: what an earlier call, or an earlier process, has created is found and
    adopted, and a second one is deleted.
    """

    @property
    def name(self) -> str:
        """The name shown in the status."""
        ...

    async def ensure(self, wanted: Wanted) -> Actual:
        """Create what is missing and repair what differs."""
        ...

    async def delete(self, uid: str, namespace: str, network_id: str = "") -> bool:
        """Delete everything that was made for an object; returns True if there was anything."""
        ...

    async def owners(self) -> set[Owner]:
        """Return the objects, of this cluster, that there are networks for."""
        ...


class BackendError(Exception):
    """The backend did not do what it was asked."""

    reason: ClassVar[str] = "BackendError"

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.network_id = ""
        """The network that was made before the failure, if there is one."""


class Unavailable(BackendError):
    """It could not be reached, did not answer in time, or failed."""

    reason = "Unavailable"


class TooManyRequests(BackendError):
    """It wants fewer requests; `retry_after` is in seconds, 0 if it did not say."""

    reason = "TooManyRequests"


class Unauthorized(BackendError):
    """It does not accept the credentials, or the project may not do this."""

    reason = "Unauthorized"


class QuotaExceeded(BackendError):
    """The project has as many networks or subnets as it may."""

    reason = "QuotaExceeded"


class AddressOverlap(BackendError):
    """Another subnet of the network has some of the addresses."""

    reason = "AddressOverlap"


class InUse(BackendError):
    """There are ports in what was to be deleted or replaced."""

    reason = "InUse"


class Rejected(BackendError):
    """It refused for another reason."""

    reason = "Rejected"
