"""Canaries: secrets that a server is handed must not come out of it anywhere but in the answers they belong to.

CVE-2019-11250 and CVE-2020-8565: tokens were written to verbose logs. CVE-2019-11244 and the like: files others could read.
"""

import asyncio
import base64
import json
import stat

import pytest

from tests.reliability.live_server import Line, LiveServer

CANARY = "canary-7b1f9a"
ENCODED = base64.b64encode(f"{CANARY}-data".encode()).decode()
SECRETS = "/api/v1/namespaces/default/secrets"
SECRET = {"metadata": {"name": "s"}, "data": {"key": ENCODED}, "stringData": {"other": f"{CANARY}-string"}}


async def _handle_secrets(server):
    """Requests that carry secrets, good and bad, of the kinds that end in errors too."""
    line = await Line.open(server)
    seen = []
    for method, path, body, content_type in (
        ("POST", SECRETS, SECRET, "application/json"),
        ("POST", SECRETS, SECRET, "application/json"),
        ("GET", f"{SECRETS}/s", None, ""),
        ("PUT", f"{SECRETS}/s", {**SECRET, "metadata": {"name": "s", "resourceVersion": "x"}}, "application/json"),
        ("PUT", f"{SECRETS}/s", {**SECRET, "type": f"{CANARY}-type"}, "application/json"),
        ("PATCH", f"{SECRETS}/s", {"stringData": {"new": f"{CANARY}-patched"}}, "application/merge-patch+json"),
        ("PATCH", f"{SECRETS}/s", {"data": f"{CANARY}-wrong"}, "application/merge-patch+json"),
        ("POST", SECRETS, f"data: [{CANARY}-yaml".encode(), "application/yaml"),
        ("POST", SECRETS, f'{{"data": {CANARY}'.encode(), "application/json"),
        ("POST", SECRETS, b"k8s\0" + CANARY.encode(), "application/vnd.kubernetes.protobuf"),
        ("POST", SECRETS, {"metadata": {"name": "t"}, CANARY: CANARY}, "application/json"),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"spec": {"token": f"{CANARY}-tr"}},
            "application/json",
        ),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": server.token}}, "application/json"),
        ("GET", f"/api/v1/pods?access_token={CANARY}&labelSelector={CANARY}==,", None, ""),
        ("GET", f"/api/v1/pods?resourceVersion={CANARY}", None, ""),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps?dryRun=All",
            {"metadata": {"name": "c"}, "data": {"a": CANARY}},
            "application/json",
        ),
    ):
        reply = await line.request(method, path, body, content_type)
        seen.append((method, path, reply.status))
    line.close()
    issued = await _issued_token(server)
    for header, status in (
        (f"Bearer {CANARY}-token", 401),
        (f"Basic {ENCODED}", 403),
        (f"Bearer {server.token}x", 401),
        (CANARY, 403),
        (f"Bearer {issued}", 403),
        (f"Bearer {issued[:-4]}AAAA", 401),
    ):
        stranger = await Line.open(server, token="")
        reply = await stranger.request("GET", "/api/v1/secrets", headers={"Authorization": header, "Cookie": CANARY})
        assert reply.status == status, reply
        assert CANARY.encode() not in reply.body
        stranger.close()
    line = await Line.open(server)
    metrics = (await line.request("GET", "/metrics")).body.decode()
    line.close()
    return seen, metrics, issued


async def _issued_token(server):
    """A token of the service account `default`, reviewed once as it is and once with another audience."""
    line = await Line.open(server)
    reply = await line.request(
        "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {}, "application/json"
    )
    token = json.loads(reply.body)["status"]["token"]
    for audiences in ([], ["elsewhere"]):
        review = {"spec": {"token": token, "audiences": audiences}}
        await line.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review, "application/json")
    line.close()
    return token


@pytest.mark.slow
def test_cve_2019_11250_and_2020_8565_no_secret_reaches_logs_or_metrics(tmp_path):
    with LiveServer(tmp_path / "data", "--log-level", "debug") as server:
        seen, metrics, issued = asyncio.run(_handle_secrets(server))
        server.terminate()
        assert server.wait() == 0
    statuses = {status for _, _, status in seen}
    assert statuses >= {200, 201, 400, 409, 422}, seen
    for place in (server.ready_line, server.output, server.log, metrics):
        assert CANARY not in place
        assert ENCODED not in place
        assert server.token not in place
        assert issued.split(".")[1] not in place
    assert "apiserver_request_total" in metrics


@pytest.mark.slow
def test_secret_files_are_readable_by_their_owner_only(tmp_path):
    with LiveServer(tmp_path / "data") as server:
        asyncio.run(_handle_secrets(server))
        readable = {
            path.relative_to(tmp_path).as_posix()
            for path in (tmp_path / "data").rglob("*")
            if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) and path.suffix != ".crt"
        }
    assert readable == set()
