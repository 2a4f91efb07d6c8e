"""Encryption at rest: ciphers, which resources they are for, and the exchange of keys."""

import asyncio

import pytest

from kapi.storage.encryption.providers import AesCbc, AesGcm, DecryptionError, Identity, SecretBox
from kapi.storage.encryption.storage import EncryptedStorage, ResourceProviders
from kapi.storage.interface import Draft, StorageDamaged
from kapi.storage.memory import MemoryStorage

KEY = "/registry/core/secrets/default/a"
OTHER = "/registry/core/secrets/default/b"
SECRET = bytes(range(32))
CIPHERS = [AesCbc, AesGcm, SecretBox]


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100_000])
def test_what_is_encrypted_can_be_decrypted(cipher, size):
    provider = cipher("k", SECRET)
    plain = bytes(index % 251 for index in range(size))
    stored = provider.encrypt(KEY, plain)
    assert stored.startswith(b"k8s:enc:%b:v1:k:" % cipher.__name__.lower().encode())
    assert provider.decrypt(KEY, stored) == plain
    assert plain not in stored or size < 2
    assert provider.encrypt(KEY, plain) != stored, "every encryption has a nonce of its own"


@pytest.mark.parametrize("cipher", CIPHERS)
def test_another_key_or_changed_bytes_are_refused(cipher):
    provider, other = cipher("k", SECRET), cipher("k", bytes(32))
    stored = provider.encrypt(KEY, b"x" * 100)
    if cipher is not AesCbc:  # It has no authentication: its padding is right by chance once in 256 times.
        with pytest.raises(DecryptionError):
            other.decrypt(KEY, stored)
    for damaged in (stored[:-1], stored[: len(provider.prefix)], stored[: len(provider.prefix) + 5]):
        with pytest.raises(DecryptionError):
            provider.decrypt(KEY, damaged)
    if cipher is not AesCbc:
        with pytest.raises(DecryptionError):
            provider.decrypt(KEY, stored[:-1] + bytes([stored[-1] ^ 1]))


def test_aesgcm_authenticates_the_key_of_the_object():
    provider = AesGcm("k", SECRET)
    with pytest.raises(DecryptionError):
        provider.decrypt(OTHER, provider.encrypt(KEY, b"x"))


@pytest.mark.parametrize(
    ("names", "encrypted", "plain"),
    [
        (["secrets"], ["core/secrets"], ["core/configmaps", "example.com/secrets"]),
        (["deployments.apps"], ["apps/deployments"], ["core/deployments", "apps/replicasets"]),
        (["*.apps"], ["apps/deployments", "apps/x"], ["core/secrets", "batch/jobs"]),
        (["*."], ["core/secrets", "core/pods"], ["apps/deployments"]),
        (["*.*"], ["core/secrets", "apps/deployments", "example.com/things"], ["reservations/nodeports"]),
    ],
)
def test_which_resources_are_encrypted(names, encrypted, plain):
    providers = ResourceProviders([(names, [AesGcm("k", SECRET)])])
    assert all(providers.of(f"/registry/{resource}/default/a") for resource in encrypted)
    assert not any(providers.of(f"/registry/{resource}/default/a") for resource in plain)


def test_the_first_rule_that_names_a_resource_decides():
    providers = ResourceProviders([(["secrets"], [AesCbc("a", SECRET)]), (["*.*"], [AesGcm("b", SECRET)])])
    assert providers.of(KEY)[0].prefix == b"k8s:enc:aescbc:v1:a:"
    assert providers.of("/registry/core/pods/default/a")[0].prefix == b"k8s:enc:aesgcm:v1:b:"


def draft(text="hidden-text"):
    return Draft(b'{"rv":"', f'","text":"{text}"}}'.encode())


def test_the_store_behind_never_sees_the_value():
    async def main():
        inner = MemoryStorage()
        storage = EncryptedStorage(inner, ResourceProviders([(["secrets"], [AesGcm("k", SECRET)])]))
        revision = await storage.put(KEY, draft(), 0)
        await storage.put("/registry/core/pods/default/a", draft(), 0)
        assert b"hidden" not in (await inner.get(KEY)).value
        assert (await storage.get(KEY)).value == draft().render(revision)
        assert b"hidden" in (await inner.get("/registry/core/pods/default/a")).value

    asyncio.run(main())


def test_keys_are_exchanged_in_steps():
    old, new = AesGcm("old", SECRET), AesGcm("new", bytes(32))

    def using(*providers):
        return ResourceProviders([(["secrets"], providers)])

    async def main():
        inner = MemoryStorage()
        plain = EncryptedStorage(inner, using(Identity()))
        revision = await plain.put(KEY, draft(), 0)
        storage = EncryptedStorage(inner, using(old, Identity()))
        seen = []
        subscription = await storage.follow(0, lambda revision, changes: seen.extend(changes))
        assert (await storage.get(KEY)).value == draft().render(revision)
        assert storage.is_stale(KEY)
        revision = await storage.put(KEY, draft(), revision)
        assert not storage.is_stale(KEY)
        storage.replace_providers(using(old, new))
        assert not storage.is_stale(KEY)
        storage.replace_providers(using(new, old))
        assert storage.is_stale(KEY)
        # An old version does not change what is known of the latest.
        first = (await storage.range("/registry/", revision=seen[0].revision)).entries[0]
        assert first.value == draft().render(seen[0].revision)
        revision = await storage.put(KEY, draft("changed"), revision)
        assert not storage.is_stale(KEY)
        storage.replace_providers(using(new))
        assert (await storage.get(KEY)).value == draft("changed").render(revision)
        assert [change.value for change in seen][-1] == draft("changed").render(revision)
        storage.replace_providers(ResourceProviders([]))
        assert storage.is_stale(KEY), "what is no longer to be encrypted is written again, too"
        subscription.close()

    asyncio.run(main())


def test_a_value_without_its_key_is_named_and_not_served():
    async def main():
        inner = MemoryStorage()
        storage = EncryptedStorage(inner, ResourceProviders([(["secrets"], [AesGcm("gone", SECRET)])]))
        await storage.put(KEY, draft(), 0)
        other = EncryptedStorage(inner, ResourceProviders([(["secrets"], [AesGcm("k", SECRET), Identity()])]))
        message = f"{KEY} is encrypted as k8s:enc:aesgcm:v1:gone, for which the configuration has no key"
        with pytest.raises(StorageDamaged, match=message):
            await other.get(KEY)
        wrong = EncryptedStorage(inner, ResourceProviders([(["secrets"], [AesGcm("gone", bytes(32))])]))
        with pytest.raises(StorageDamaged, match=f"{KEY}: the stored data is not valid for aesgcm with this key"):
            await wrong.range("/registry/")

    asyncio.run(main())
