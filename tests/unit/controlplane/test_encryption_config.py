"""EncryptionConfiguration files, and a server that uses one."""

import asyncio
import base64

import pytest
import yaml

from api_client import NS, serving
from kapi.controlplane.encryption import read_encryption
from kapi.server.configfile import ConfigFileError
from kapi.storage.encryption.storage import EncryptedStorage
from kapi.storage.memory import MemoryStorage
from kapi.storage.sqlite.storage import SqliteStorage

SECRET = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
SECRETS = f"{NS}/default/secrets"
CANARY = "the-canary-that-must-not-be-on-the-disk"


def config(*providers, resources=("secrets",)):
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": list(resources), "providers": list(providers)}],
    }


def keys(kind, *names, secret=SECRET):
    return {kind: {"keys": [{"name": name, "secret": secret} for name in names]}}


def read(tmp_path, document):
    path = tmp_path / "encryption.yaml"
    path.write_text(yaml.safe_dump(document))
    return read_encryption(path)


def test_the_first_key_of_the_first_provider_encrypts(tmp_path):
    document = config(keys("aescbc", "one", "two"), keys("secretbox", "one"), {"identity": {}})
    providers = read(tmp_path, document).of("/registry/core/secrets/default/a")
    assert [provider.prefix for provider in providers] == [
        b"k8s:enc:aescbc:v1:one:",
        b"k8s:enc:aescbc:v1:two:",
        b"k8s:enc:secretbox:v1:one:",
        b"",
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (config(), "resources[0].providers: Required value"),
        (config({"identity": {}}, resources=()), "resources[0].resources: Required value"),
        ({**config(), "resources": []}, "resources: Required value"),
        (config(keys("aescbc")), "resources[0].providers[0].aescbc.keys: Required value"),
        (config(keys("aescbc", "")), "resources[0].providers[0].aescbc.keys[0].name: Required value"),
        (config(keys("aescbc", "a:b")), 'keys[0].name: Invalid value: "a:b": must not hold a colon'),
        (config(keys("aescbc", "a", secret="%")), 'secret: Invalid value: "REDACTED": secrets must be base64 encoded'),
        (
            config(keys("aesgcm", "a", secret="YWJj")),
            'secret: Invalid value: "REDACTED": secret is 3 bytes long, expected 16, 24, 32',
        ),
        (config(keys("aesgcm", "a", "a")), "two keys of a provider have the same name"),
        (config({}), "resources[0].providers[0]: Required value: exactly one provider"),
        (config({"kms": {"name": "x"}}), "key management services are not supported by this version"),
        (config({"rot13": {}}), "resources[0].providers[0].rot13: unknown field"),
        (config({"identity": {}}, resources=["*"]), "use '*.' instead"),
        (config({"identity": {}}, resources=["Secrets"]), "expected RESOURCE, RESOURCE.GROUP"),
    ],
)
def test_mistakes_are_refused_without_secrets_in_the_message(tmp_path, document, message):
    with pytest.raises(ConfigFileError) as caught:
        read(tmp_path, document)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def on_disk(tmp_path):
    return b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())


def test_the_files_of_the_store_have_no_plain_text_and_keys_can_be_exchanged(tmp_path):
    secret = {"metadata": {"name": "s"}, "stringData": {"password": CANARY}}
    visible = base64.b64encode(CANARY.encode())

    async def main():
        inner = await SqliteStorage.open(tmp_path / "data")
        storage = EncryptedStorage(inner, read(tmp_path, config(keys("aesgcm", "one"), {"identity": {}})))
        async with serving(storage) as api:
            made = await api.made(SECRETS, secret)
            assert base64.b64decode(made["data"]["password"]).decode() == CANARY
            await api.patch(f"{SECRETS}/s", {"metadata": {"labels": {"a": "b"}}})
            storage.replace_providers(read(tmp_path, config(keys("secretbox", "two"), keys("aesgcm", "one"))))
            revision = api.revision
            # An update that changes nothing is written, because the object is not encrypted as configured; once.
            current = (await api.get(f"{SECRETS}/s")).json
            assert (await api.put(f"{SECRETS}/s", current)).status == 200
            assert api.revision == revision + 1
            current = (await api.get(f"{SECRETS}/s")).json
            assert (await api.put(f"{SECRETS}/s", current)).status == 200
            assert api.revision == revision + 1
            assert (await inner.get("/registry/core/secrets/default/s")).value.startswith(b"k8s:enc:secretbox:v1:two:")
            assert visible not in on_disk(tmp_path)
        await storage.close()
        inner = await SqliteStorage.open(tmp_path / "data")
        storage = EncryptedStorage(inner, read(tmp_path, config(keys("secretbox", "two"), keys("aesgcm", "one"))))
        async with serving(storage) as api:
            assert base64.b64decode((await api.get(f"{SECRETS}/s")).json["data"]["password"]).decode() == CANARY
        await storage.close()

    asyncio.run(main())
    assert visible not in on_disk(tmp_path)


def test_a_server_without_the_configuration_serves_everything_else_and_names_what_it_cannot_read(tmp_path):
    async def main():
        inner = MemoryStorage()
        storage = EncryptedStorage(inner, read(tmp_path, config(keys("aesgcm", "one"))))
        async with serving(storage) as api:
            await api.made(SECRETS, {"metadata": {"name": "s"}})
        async with serving(inner) as api:
            assert (await api.get(SECRETS)).names == []
            assert (await api.get(NS)).status == 200
            assert "/registry/core/secrets/default/s" in api.catalog.hub.invalid.check()

    asyncio.run(main())
