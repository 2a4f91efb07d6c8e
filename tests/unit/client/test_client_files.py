"""The files of a configuration are read up to a bound, whatever their paths name."""

import asyncio
from pathlib import Path

import pytest

from kapi.client import ClientConfig, ConfigError
from kapi.client.auth.credentials import Credentials
from kapi.client.files import MAX_FILE_BYTES, check_file, read_file

ENDLESS = Path("/dev/zero")


def test_a_file_of_just_the_bound_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * MAX_FILE_BYTES)
    assert len(read_file(path)) == MAX_FILE_BYTES
    check_file(path)
    path.write_bytes(b"a" * (MAX_FILE_BYTES + 1))
    for function in (read_file, check_file):
        with pytest.raises(OSError, match="more than 16777216 bytes"):
            function(path)


def test_a_kubeconfig_without_end_is_a_config_error():
    with pytest.raises(ConfigError, match="more than 16777216 bytes"):
        ClientConfig.from_kubeconfig(ENDLESS)


@pytest.mark.parametrize("field", ["ca_file", "token_file"])
def test_a_token_or_an_authority_without_end_is_a_config_error(field):
    async def present():
        await Credentials(ClientConfig("https://example", **{field: ENDLESS})).present()

    with pytest.raises(ConfigError, match="more than 16777216 bytes"):
        asyncio.run(present())


def test_a_client_certificate_without_end_is_a_config_error():
    with pytest.raises(ConfigError, match="more than 16777216 bytes"):
        Credentials(ClientConfig("https://example", cert_file=ENDLESS, key_file=ENDLESS))
