"""Tokens of a file, and bootstrap tokens."""

import base64

import pytest

from api_client import NS, serving, user_of_token
from kapi.server.authn.tokenfile import MAX_SIZE, read_token_file
from virtual_time import run

SECRETS = f"{NS}/kube-system/secrets"


def test_token_file_has_users_with_quoted_groups(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text(
        't1,alice,u-1,"devs,ops"\n\nt2,bob,u-2\nt3,"eve, the admin",u-3,one,more columns\n,nobody,x\nt2,bob2,u\n'
    )
    users = read_token_file(path)
    assert {token: (user.name, user.uid, user.groups) for token, user in users.items()} == {
        "t1": ("alice", "u-1", ("devs", "ops")),
        "t2": ("bob2", "u", ()),
        "t3": ("eve, the admin", "u-3", ("one",)),
    }


@pytest.mark.parametrize(
    ("content", "where", "reason"),
    [
        (
            b"t1,alice,u\nsecret-token,bob\n",
            ":2: ",
            "expected at least 3 columns (token, user name, user uid), found 2",
        ),
        (b"secret-token\n", ":1: ", "found 1"),
        (b't1,alice,u\n"secret-token,bob,u\n', ":2: ", "unexpected end of data"),
        (b"secret-token,,u\n", ":1: ", "the user name is empty"),
        (b"t1,alice,u\nsecret-token,b\xff,u\n", ":2: ", "not UTF-8"),
        (b"x" * (MAX_SIZE + 1), ": ", "larger than"),
    ],
)
def test_token_file_with_a_mistake_is_refused_with_its_line_and_without_its_tokens(tmp_path, content, where, reason):
    path = tmp_path / "tokens.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_token_file(path)
    assert str(caught.value).startswith(f"{path}{where}")
    assert reason in str(caught.value)
    assert "secret-token" not in str(caught.value)


BOOTSTRAP = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "auth-extra-groups": "system:bootstrappers:workers,system:bootstrappers:a",
    "expiration": "2030-01-01T00:00:00Z",
}


def secret(kind="bootstrap.kubernetes.io/token", **changes):
    data = {key: value for key, value in (BOOTSTRAP | changes).items() if value is not None}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"name": "bootstrap-token-abcdef"}, "type": kind, "data": encoded}


async def user_of(api, token="abcdef.0123456789abcdef"):
    return await user_of_token(api, token)


def test_bootstrap_token_is_valid_while_its_secret_is(tmp_path):
    async def main():
        async with serving(key_file=tmp_path / "sa.key") as api:
            assert await user_of(api) is None
            await api.post(SECRETS, secret())
            groups = ["system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:workers"]
            assert await user_of(api) == {
                "username": "system:bootstrap:abcdef",
                "groups": [*groups, "system:authenticated"],
            }
            await api.delete(f"{SECRETS}/bootstrap-token-abcdef")
            assert await user_of(api) is None

    run(main())


@pytest.mark.parametrize(
    "made",
    [
        secret(expiration="2020-01-01T00:00:00Z"),
        secret(expiration="soon"),
        secret(**{"usage-bootstrap-authentication": "yes"}),
        secret(**{"usage-bootstrap-authentication": None}),
        secret(**{"auth-extra-groups": "system:masters"}),
        secret(**{"auth-extra-groups": "system:bootstrappers:a,"}),
        secret(**{"token-secret": "0123456789abcdee"}),
        secret(**{"token-id": "bbbbbb"}),
        secret("Opaque"),
    ],
)
def test_bootstrap_token_that_is_not_valid_is_refused(tmp_path, made):
    async def main():
        async with serving(key_file=tmp_path / "sa.key") as api:
            assert (await api.post(SECRETS, made)).status == 201
            assert await user_of(api) is None

    run(main())


def test_bootstrap_token_without_expiration_and_groups_is_valid(tmp_path):
    async def main():
        async with serving(key_file=tmp_path / "sa.key") as api:
            await api.post(SECRETS, secret(expiration=None, **{"auth-extra-groups": None}))
            assert (await user_of(api))["groups"] == ["system:bootstrappers", "system:authenticated"]
            for wrong in (
                "abcdef",
                "abcdef.",
                "abcdef.0123456789abcde",
                "ABCDEF.0123456789abcdef",
                "../../../x.0123456789abcdef",
            ):
                assert await user_of(api, wrong) is None

    run(main())
