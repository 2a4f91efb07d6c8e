"""The contract suite of storage backends on three real members of etcd, but for the tests of stores of one server."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest
import test_contract_commits
import test_contract_compaction
import test_contract_feed
import test_contract_model
import test_contract_reads
import test_contract_shared
import test_contract_writes
from storage_backends import Backend, Subject

from etcd_cluster import PROGRAM, EtcdCluster
from kapi.storage.encryption.providers import AesGcm
from kapi.storage.encryption.storage import EncryptedStorage, ResourceProviders
from kapi.storage.etcd.address import parse_address
from kapi.storage.etcd.storage import EtcdStorage
from peers import peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kapi.storage.interface import Storage


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    """A cluster of three members. Nothing else writes to it: tests count revisions."""
    peer(PROGRAM, "etcd")
    cluster = EtcdCluster(3).start()
    yield cluster
    cluster.close()


@pytest.fixture
def subject(etcd: EtcdCluster, tmp_path: Path) -> Subject:
    async def open_etcd(path: Path) -> Storage:
        # Each test has a store of its own: a prefix that no other uses.
        prefix = f"/contract{path}"
        return await EtcdStorage.open(parse_address(f"etcd://{etcd.endpoints}{prefix}?timeout=60"))

    return Subject(Backend("etcd", open_etcd, is_durable=True, is_shared=True, examples=8), tmp_path)


@pytest.fixture
def durable(subject: Subject) -> Subject:
    return subject


def _contract() -> dict[str, object]:
    found: dict[str, object] = {}
    for module in (
        test_contract_commits,
        test_contract_compaction,
        test_contract_feed,
        test_contract_model,
        test_contract_reads,
        test_contract_shared,
        test_contract_writes,
    ):
        for name, value in vars(module).items():
            if name.startswith("test_") and {"subject", "durable"} & {*inspect.signature(value).parameters}:
                assert name not in found, f"two tests of the contract have the name {name}"
                found[name] = value
    return found


globals().update(_contract())


def test_encrypted_values_are_read_back_from_etcd(subject: Subject) -> None:
    providers = ResourceProviders([(["*.*"], [AesGcm("k", bytes(32))])])

    async def open_encrypted(path: Path) -> Storage:
        return EncryptedStorage(await subject.backend.open(path), providers)

    encrypted = Subject(subject.backend._replace(open=open_encrypted), subject.path)
    test_contract_reads.test_a_key_can_be_read_at_every_revision_it_had(encrypted)
