"""kubectl and identities: tokens of service accounts, users with certificates, and what each of them is."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transcript import Terminal


@pytest.fixture
def session(terminal: Terminal) -> Terminal:
    if terminal.minor < 33:
        pytest.skip("this kubectl has other words, or no create token")
    return terminal


def test_create_token_gives_a_token_of_the_service_account(session: Terminal) -> None:
    session.output("kubectl create serviceaccount robot")
    token = session.output("kubectl create token robot").strip()
    who = json.loads(session.output(f"kubectl auth whoami -o json --kubeconfig /dev/null {_as(session, token)}"))
    user = who["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{session.namespace}:robot"
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")
    session("""
        $ kubectl delete serviceaccount robot
        serviceaccount "robot" deleted from <ns> namespace
    """)
    shown = session.output(f"kubectl auth whoami --kubeconfig /dev/null {_as(session, token)} 2>&1 || true")
    assert "You must be logged in to the server" in shown or "Unauthorized" in shown


def test_create_token_binds_to_an_object_and_an_audience(session: Terminal) -> None:
    session("""
        $ kubectl create serviceaccount robot
        serviceaccount/robot created
        $ kubectl create secret generic bound
        secret/bound created
        $ kubectl create token robot --duration=1m
        error: failed to create token: TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes
        [1]
        $ kubectl create token nobody
        error: failed to create token: serviceaccounts "nobody" not found
        [1]
        $ kubectl create token robot --bound-object-kind=Secret --bound-object-name=none
        error: failed to create token: secrets "none" not found
        [1]
    """)
    made = session.output(
        "kubectl create token robot --audience=vault --duration=11m -o json"
        " --bound-object-kind=Secret --bound-object-name=bound"
    )
    spec = json.loads(made)["spec"]
    assert spec["audiences"] == ["vault"]
    assert spec["expirationSeconds"] == 660
    assert spec["boundObjectRef"] == {"kind": "Secret", "apiVersion": "v1", "name": "bound"}
    token = json.loads(made)["status"]["token"]
    shown = session.output(f"kubectl auth whoami --kubeconfig /dev/null {_as(session, token)} 2>&1 || true")
    assert "You must be logged in to the server" in shown or "Unauthorized" in shown


def _as(session: Terminal, token: str) -> str:
    """The options with which kubectl shows this token and nothing else."""
    config = json.loads(session.output("kubectl config view --raw -o json"))
    cluster = config["clusters"][0]["cluster"]
    path = session.directory / "ca.crt"
    path.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return f"--server={cluster['server']} --certificate-authority={path} --token={token}"
