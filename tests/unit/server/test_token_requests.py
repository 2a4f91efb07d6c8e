"""TokenRequests: what is issued, what it authenticates, and when it no longer does."""

import asyncio
import functools
import inspect

import jwt
import pytest

from api_client import AUDIENCES, NS, pod, serving, user_of_token
from kapi.base.jwt import SigningKey
from virtual_time import EPOCH, run

ACCOUNTS = f"{NS}/default/serviceaccounts"
TOKEN = f"{ACCOUNTS}/robot/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SECRETS = f"{NS}/default/secrets"
CREDENTIAL = "authentication.kubernetes.io/credential-id"


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "sa.key"


def issuing(test):
    """Run `test(api, …)` against a server that issues tokens, with the service account `robot`."""

    @functools.wraps(test)
    def runner(key_file, **given):
        async def main():
            async with serving(key_file=key_file) as api:
                api.account = (await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})).metadata
                await test(api, **({"key_file": key_file} if "key_file" in names else {}), **given)

        run(main())

    names = list(inspect.signature(test).parameters)[1:]
    runner.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in dict.fromkeys(["key_file", *names])]
    )
    return runner


async def token_of(api, **spec):
    answer = await api.post(TOKEN, {"spec": spec})
    assert answer.status == 201, answer
    return answer["status"]["token"]


async def review(api, token, *audiences):
    return (await api.post(REVIEWS, {"spec": {"token": token, "audiences": list(audiences)}}))["status"]


def claims_of(token):
    return jwt.decode(token, options={"verify_signature": False})


@issuing
async def test_token_names_the_account_and_lives_for_an_hour(api):
    answer = await api.post(TOKEN, {})
    seconds = int((EPOCH - EPOCH.fromtimestamp(0, EPOCH.tzinfo)).total_seconds())
    claims = claims_of(answer["status"]["token"])
    begin = claims["iat"]
    assert begin >= seconds
    uid = api.account["uid"]
    assert claims == {
        "aud": list(AUDIENCES),
        "exp": begin + 3600,
        "iat": begin,
        "iss": AUDIENCES[0],
        "jti": claims["jti"],
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}},
        "nbf": begin,
        "sub": "system:serviceaccount:default:robot",
    }
    assert answer.json["spec"] == {"audiences": list(AUDIENCES), "expirationSeconds": 3600, "boundObjectRef": None}
    head = {key: value for key, value in answer.metadata.items() if key != "creationTimestamp"}
    assert head == {"name": "robot", "namespace": "default", "uid": uid}
    assert await user_of_token(api, answer["status"]["token"]) == {
        "username": "system:serviceaccount:default:robot",
        "uid": uid,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {CREDENTIAL: [f"JTI={claims['jti']}"]},
    }


@issuing
async def test_token_is_for_its_audiences_only(api):
    token = await token_of(api, audiences=["vault", "other"])
    assert await user_of_token(api, token) is None
    found = await review(api, token, "x", "vault")
    assert (found["authenticated"], found["audiences"]) == (True, ["vault"])
    found = await review(api, token)
    texts = ('["vault" "other"]', f'["{AUDIENCES[0]}"]')
    reason = "token audiences {} is invalid for the target audiences {}".format(*texts)
    assert found == {"user": {}, "error": f"[invalid bearer token, {reason}]"}


@issuing
async def test_token_expires(api):
    token = await token_of(api, expirationSeconds=600)
    assert await user_of_token(api, token)
    await asyncio.sleep(600 + 59)
    assert await user_of_token(api, token)
    await asyncio.sleep(2)
    assert await user_of_token(api, token) is None
    assert (await review(api, token))["error"] == "[invalid bearer token, service account token has expired]"


@issuing
async def test_deleting_the_account_revokes_its_tokens_at_once(api):
    token = await token_of(api)
    assert await user_of_token(api, token)
    await api.delete(f"{ACCOUNTS}/robot")
    assert await user_of_token(api, token) is None
    assert (await review(api, token))["error"] == '[invalid bearer token, serviceaccounts "robot" not found]'
    again = await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})
    reason = f"service account UID ({again.metadata['uid']}) does not match claim ({api.account['uid']})"
    assert (await review(api, token))["error"] == f"[invalid bearer token, {reason}]"


@pytest.mark.parametrize("kind", ["Secret", "Pod", "Node"])
@issuing
async def test_deleting_the_bound_object_revokes_a_token_at_once(api, kind):
    path, body = {
        "Secret": (SECRETS, {"metadata": {"name": "b"}}),
        "Pod": (f"{NS}/default/pods", pod("b", serviceAccountName="robot")),
        "Node": ("/api/v1/nodes", {"metadata": {"name": "b"}}),
    }[kind]
    made = await api.post(path, body)
    bound = {"kind": kind, "apiVersion": "v1", "name": "b", "uid": made.metadata["uid"]}
    token = await token_of(api, boundObjectRef=bound)
    reference = {"name": "b", "uid": made.metadata["uid"]}
    assert claims_of(token)["kubernetes.io"][kind.lower()] == reference
    extra = (await user_of_token(api, token))["extra"]
    if kind != "Secret":
        prefix = f"authentication.kubernetes.io/{kind.lower()}"
        assert extra.pop(f"{prefix}-name") == ["b"]
        assert extra.pop(f"{prefix}-uid") == [made.metadata["uid"]]
    assert list(extra) == [CREDENTIAL]
    await api.delete(f"{path}/b", {"gracePeriodSeconds": 0})
    reason = "[invalid bearer token, service account token has been invalidated]"
    assert (await review(api, token))["error"] == reason
    again = await api.post(path, body)
    uids = f"({again.metadata['uid']}) does not match service account {kind.lower()} ref claim ({reference['uid']})"
    assert (await review(api, token))["error"] == f"[invalid bearer token, {kind.lower()} UID {uids}]"


@issuing
async def test_change_of_a_bound_object_that_does_not_end_it_changes_nothing(api):
    await api.post(SECRETS, {"metadata": {"name": "b"}})
    token = await token_of(api, boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "b"})
    first = await user_of_token(api, token)
    await api.patch(f"{SECRETS}/b", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{ACCOUNTS}/robot", {"metadata": {"labels": {"a": "b"}}})
    assert first is not None
    assert await user_of_token(api, token) == first


@issuing
async def test_token_of_a_terminating_object_is_valid_for_another_minute(api):
    path = f"{SECRETS}/b"
    await api.post(SECRETS, {"metadata": {"name": "b", "finalizers": ["example.com/wait"]}})
    token = await token_of(api, boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "b"})
    await api.delete(path)
    assert await user_of_token(api, token)
    await asyncio.sleep(65)
    assert await user_of_token(api, token) is None


@issuing
async def test_token_of_a_scheduled_pod_names_its_node(api):
    node = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    for name, node_name in (("a", "n"), ("b", "missing")):
        await api.post(f"{NS}/default/pods", pod(name, serviceAccountName="robot", nodeName=node_name))
    bound = {"kind": "Pod", "apiVersion": "v1"}
    token = await token_of(api, boundObjectRef={**bound, "name": "a"})
    assert claims_of(token)["kubernetes.io"]["node"] == {"name": "n", "uid": node.metadata["uid"]}
    extra = (await user_of_token(api, token))["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == ["n"]
    assert extra["authentication.kubernetes.io/node-uid"] == [node.metadata["uid"]]
    # The pod is what it is bound to.
    await api.delete("/api/v1/nodes/n")
    assert await user_of_token(api, token)
    token = await token_of(api, boundObjectRef={**bound, "name": "b"})
    assert claims_of(token)["kubernetes.io"]["node"] == {"name": "missing"}


@issuing
async def test_token_that_admission_asks_for_is_valid_for_a_year_and_warned_about_after_an_hour(api):
    await api.post(f"{NS}/default/pods", pod("a", serviceAccountName="robot"))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "a"}
    claims = claims_of(await token_of(api, expirationSeconds=3607, boundObjectRef=bound))
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607
    claims = claims_of(await token_of(api, expirationSeconds=3607, boundObjectRef=bound, audiences=["x"]))
    assert claims["exp"] - claims["iat"] == 3607


@issuing
async def test_maximum_of_the_server_shortens_a_token_with_a_warning(api):
    api.services.token_issuer.maximum = 1000
    answer = await api.post(TOKEN, {"spec": {"expirationSeconds": 2000}})
    claims = claims_of(answer["status"]["token"])
    assert (claims["exp"] - claims["iat"], answer["spec"]["expirationSeconds"]) == (1000, 1000)
    assert answer.warnings == ["requested expiration of 2000 seconds shortened to 1000 seconds"]


INVALID = 'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            {"spec": {"expirationSeconds": 599}},
            (422, "Invalid", f"{INVALID}599: may not specify a duration less than 10 minutes"),
        ),
        (
            {"spec": {"expirationSeconds": 2**32 + 1}},
            (422, "Invalid", f"{INVALID}4294967297: may not specify a duration larger than 2^32 seconds"),
        ),
        (
            {"metadata": {"name": "x"}},
            (
                422,
                "Invalid",
                (
                    'TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: "x": '
                    "must match the service account name if specified"
                ),
            ),
        ),
        (
            {"metadata": {"namespace": "x"}},
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}}},
            (400, "BadRequest", "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "apps/v1", "name": "a"}}},
            (400, "BadRequest", "cannot bind token to object of type apps/v1, Kind=Pod"),
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}},
            (404, "NotFound", 'secrets "none" not found'),
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other"}}},
            (
                400,
                "BadRequest",
                'cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.',
            ),
        ),
    ],
)
@issuing
async def test_request_that_cannot_be_answered_is_refused(api, body, error):
    await api.post(f"{NS}/default/pods", pod("other"))
    assert (await api.post(TOKEN, body)).error == error


@issuing
async def test_another_uid_than_that_of_the_account_or_object_is_a_conflict(api):
    answer = await api.post(TOKEN, {"metadata": {"uid": "u"}})
    assert answer.error[:2] == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "robot": the UID in the token request (u) '
        f"does not match the UID of the service account ({api.account['uid']})"
    )
    await api.post(SECRETS, {"metadata": {"name": "b"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "b", "uid": "u"}
    answer = await api.post(TOKEN, {"spec": {"boundObjectRef": bound}})
    assert answer.error[:2] == (409, "Conflict")
    assert answer.message.startswith('Operation cannot be fulfilled on Secret "b": the UID in the bound object ref')


@issuing
async def test_token_of_a_missing_account_is_not_found(api):
    answer = await api.post(f"{ACCOUNTS}/nobody/token", {})
    assert answer.error == (404, "NotFound", 'serviceaccounts "nobody" not found')
    assert (await api.get(TOKEN)).error[:2] == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": 1}, "service account token has expired"),
        ({"nbf": 9_999_999_999}, "service account token is not valid yet"),
        ({"iat": 9_999_999_999}, "service account token is issued in the future"),
        ({"aud": "vault"}, None),
        ({"aud": []}, ""),
        ({"exp": "soon"}, None),
        ({"kubernetes.io": "x"}, None),
        ({"kubernetes.io": {}}, None),
        ({"iss": "https://elsewhere"}, "invalid bearer token"),
        ({"iss": None}, "invalid bearer token"),
        ({"iss": "kubernetes/serviceaccount"}, "namespace claim is missing"),
    ],
)
@issuing
async def test_claims_are_checked_even_if_the_signature_is_valid(api, key_file, changes, reason):
    """None as the reason stands for any."""
    claims = claims_of(await token_of(api)) | changes
    token = SigningKey(key_file).sign(claims)
    found = await review(api, token)
    if reason == "":
        assert found["authenticated"]
    else:
        assert "authenticated" not in found
        assert (reason or "invalid") in found["error"]
        assert await user_of_token(api, token) is None


@issuing
async def test_keys_and_issuer_are_published(api, key_file):
    answer = await api.get("/openid/v1/jwks")
    assert answer.header("Content-Type") == "application/jwk-set+json"
    assert answer.header("Cache-Control") == "public, max-age=3600"
    token = await token_of(api)
    published = jwt.PyJWKSet.from_dict(answer.json)[jwt.get_unverified_header(token)["kid"]]
    options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    assert jwt.decode(token, published, ["ES256"], options, audience=AUDIENCES[0], issuer=AUDIENCES[0])
    answer = await api.get("/.well-known/openid-configuration")
    assert answer.header("Content-Type") == "application/json"
    assert answer.text == (
        '{"issuer":"https://kubernetes.default.svc.cluster.local",'
        '"jwks_uri":"https://127.0.0.1:6443/openid/v1/jwks",'
        '"response_types_supported":["id_token"],"subject_types_supported":["public"],'
        '"id_token_signing_alg_values_supported":["ES256"]}'
    )
