"""What is checked before a store on etcd is used, and what is learnt: its format, its origin, what is compacted.

A store has a format key, `<prefix>.format`, written once, when the store is created. Revisions are counted from it:
`revision = etcd's revision - origin`. A new store begins at 0 whatever the cluster was used for before, and one that
was restored from a snapshot begins after the last revision of the snapshot, though the revisions of its new cluster are
small: a revision that was given out is not given out again.

Every reason to refuse a store is told here in one sentence: no member answers, a certificate or password is wrong, etcd
is too old, another program's data is below the prefix, or another version of Kapi wrote it.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kapi.storage.etcd import messages
from kapi.storage.etcd.cluster import RANGE, STATUS, TXN, EtcdError, Unanswered
from kapi.storage.etcd.livefeed import CompactedWatch, History
from kapi.storage.etcd.streams import Code
from kapi.storage.interface import StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.storage.etcd.address import Address
    from kapi.storage.etcd.cluster import Cluster, Member
    from kapi.storage.etcd.messages import KeyValue, Status

FORMAT: Final = 1
"""The format of keys and values that this version writes."""
OLDEST_VERSIONS: Final = {(3, 4): 31, (3, 5): 13}
"""The first patch release of each minor one whose progress notifications can be relied on; what is newer has it."""
_STATUS_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.2

_KUBERNETES_VALUES: Final = (b"k8s\x00", b"k8s:enc:")
_KUBERNETES_JSON: Final = re.compile(rb'\s*\{.*"apiVersion"', re.DOTALL)


class StoreFormat(msgspec.Struct, frozen=True):
    """The value of the format key."""

    format: int
    shift: int = 0
    """The revision of the store when it was created."""


class Opened(NamedTuple):
    """What is known of a store that can be used."""

    origin: int
    """What to add to a revision of the store for etcd's."""
    revision: int
    """The latest revision, of the store."""
    compacted: int
    """The oldest revision that can be read, of the store."""


def format_key(prefix: str) -> bytes:
    """The key that says what a store is."""
    return f"{prefix}.format".encode()


async def open_store(cluster: Cluster, *, shift: int = 0, creates: bool = True) -> Opened:
    """Check a store, and create it if it is absent; a new one begins at the revision `shift`.

    Raises:
        StorageUnavailable: it cannot be used; the text says why.
    """
    try:
        await cluster.authenticate()
        _check_versions(await _statuses(cluster))
        return await _open(cluster, shift, creates=creates)
    except (EtcdError, Unanswered) as error:
        raise StorageUnavailable(explain(error, cluster.address)) from None


async def _statuses(cluster: Cluster) -> list[Status | None]:
    """The status of every member that answers; waits for the first, for the cluster may be about to start."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + cluster.address.timeout
    while True:
        statuses, errors = await _ask_members(cluster)
        if statuses:
            return statuses
        if loop.time() > deadline or any("CERTIFICATE_VERIFY_FAILED" in error.details for error in errors):
            raise StorageUnavailable(_unreachable(errors, cluster.address))
        await asyncio.sleep(_PAUSE_SECONDS)


async def _ask_members(cluster: Cluster) -> tuple[list[Status | None], list[EtcdError]]:
    answers = await asyncio.gather(*(_status(cluster, member) for member in cluster.members), return_exceptions=True)
    statuses: list[Status | None] = []
    errors: list[EtcdError] = []
    for member, answer in zip(cluster.members, answers, strict=True):
        if isinstance(answer, EtcdError):
            errors.append(answer)
            cluster.leave(member.endpoint)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            statuses.append(answer)
    return statuses, errors


async def _status(cluster: Cluster, member: Member) -> Status | None:
    """The status of a member; None if it answers and the user may not see it, which etcd keeps for root."""
    try:
        data = await cluster.attempt(member, STATUS, messages.STATUS_REQUEST, _STATUS_SECONDS)
    except EtcdError as error:
        if error.is_forbidden:
            return None
        raise
    return messages.read_status(data)


def _check_versions(statuses: Sequence[Status | None]) -> None:
    for status in filter(None, statuses):
        major, minor, patch = [*(int(part) for part in re.findall(r"\d+", status.version)[:3]), 0, 0, 0][:3]
        oldest = min(OLDEST_VERSIONS)
        if (major, minor) < oldest or patch < OLDEST_VERSIONS.get((major, minor), 0):
            wanted = ", ".join(f"{a}.{b}.{c}" for (a, b), c in OLDEST_VERSIONS.items())
            raise StorageUnavailable(
                f"etcd {status.version} is too old: its watches can lose events when they are asked for progress; "
                f"expected at least one of {wanted}, or a newer minor version"
            )


async def _open(cluster: Cluster, shift: int, *, creates: bool) -> Opened:
    key = format_key(cluster.address.prefix)
    while True:
        found = messages.read_range(await cluster.call(RANGE, messages.range_request(key)))
        if found.kvs:
            return await _open_existing(cluster, found.kvs[0], found.revision)
        await _refuse_foreign_data(cluster)
        if not creates:
            raise StorageUnavailable(f"there is no store of Kapi at {cluster.address}")
        value = msgspec.json.encode(StoreFormat(FORMAT, shift))
        request = messages.txn_request([messages.compare_revision(key, 0)], [messages.put_operation(key, value)], ())
        created = messages.read_txn(await cluster.call(TXN, request))
        if created.succeeded:
            return Opened(created.revision - shift, shift, shift)
        # Another server was faster, or this one was and did not hear of it: read what is there.


async def _open_existing(cluster: Cluster, kv: KeyValue, revision: int) -> Opened:
    prefix = cluster.address.prefix
    try:
        found = msgspec.json.decode(kv.value, type=StoreFormat)
    except msgspec.MsgspecError:
        raise StorageUnavailable(f"{kv.key.decode()} in etcd was not written by Kapi; choose another prefix") from None
    if found.format != FORMAT:
        raise StorageUnavailable(
            f"the store at {prefix} in etcd has format {found.format}, which another version of Kapi wrote; "
            f"this version reads format {FORMAT}"
        )
    origin = kv.mod_revision - found.shift
    compacted = await _compacted(cluster, kv, revision)
    return Opened(origin, revision - origin, max(found.shift, compacted - origin))


async def _compacted(cluster: Cluster, kv: KeyValue, revision: int) -> int:
    """The revision that etcd is compacted to, at least that of the format key.

    No call says it; a watch that starts too early is told.
    """
    history = History(cluster, kv.key, b"", kv.mod_revision)
    try:
        async with asyncio.timeout(cluster.address.timeout):
            await history.until(revision)
    except CompactedWatch as error:
        return error.revision
    except TimeoutError:
        raise StorageUnavailable(f"no answer to a watch from etcd within {cluster.address.timeout:g} s") from None
    finally:
        await history.close()
    return kv.mod_revision


async def _refuse_foreign_data(cluster: Cluster) -> None:
    prefix = cluster.address.prefix
    request = messages.range_request(f"{prefix}/".encode(), f"{prefix}0".encode(), limit=1)
    found = messages.read_range(await cluster.call(RANGE, request))
    if not found.kvs:
        return
    kv = found.kvs[0]
    is_kubernetes = kv.value.startswith(_KUBERNETES_VALUES) or _KUBERNETES_JSON.match(kv.value)
    owner = "objects that kube-apiserver wrote" if is_kubernetes else "data that Kapi did not write"
    raise StorageUnavailable(
        f"etcd has {owner} below {prefix}, such as {kv.key.decode(errors='replace')}; "
        f"choose another prefix: etcd://{','.join(cluster.address.endpoints)}/ANOTHER"
    )


def explain(error: EtcdError | Unanswered, address: Address) -> str:
    """Why a store cannot be opened, in one line."""
    if isinstance(error, Unanswered):
        return f"etcd at {', '.join(address.endpoints)} does not answer: {error}"
    if error.code is Code.PERMISSION_DENIED:
        return f"etcd does not permit the user to read and write below {address.prefix}: {error}"
    if error.code in (Code.UNAUTHENTICATED, Code.INVALID_ARGUMENT):
        return f"etcd refuses the user of the address: {error}; give ?user=NAME&password-file=FILE"
    return f"etcd refuses: {error}"


def _unreachable(errors: Sequence[EtcdError], address: Address) -> str:
    details = "; ".join(str(error) for error in errors)
    if address.ca_file is None:
        hint = "are these the client addresses of the members, and do they use TLS (?cacert=FILE)?"
    else:
        hint = "are these the client addresses of the members, and the files those of its authority?"
    return f"no member of etcd answers: {details}; {hint}"
