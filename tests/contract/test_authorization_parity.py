"""Authorization compared with a real kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

The programs of `authorization_programs` must be answered as in `tests/recordings/authorization.json`; with
KAPI_RECORD=1 the recording is written instead. The default roles and bindings must be the same.
"""

import json
import os
import ssl
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml

import authorization_matrix as matrix
from authorization_programs import ADMIN, AUTHZ, NAMESPACE, PROGRAMS, RBAC, USERS, content_type, summary
from kapi.base.tls import Authority, KeyPair
from kapi.controlplane.rbac.bootstrappolicy import bootstrap_policy
from kube_apiserver_plane import kube_apiserver_plane

RECORDING = Path(__file__).parents[1] / "recordings" / "authorization.json"
KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


class Client:
    """Requests to a server by users with client certificates of its authority."""

    def __init__(self, config, authority, folder):
        cluster = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]
        self._host, _, port = cluster["server"].removeprefix("https://").partition(":")
        self._port = int(port)
        self._connections = {}
        signing = Authority.ensure(authority, "unused")
        for number, (name, groups) in enumerate(USERS.items()):
            pair = KeyPair(folder / f"user{number}.crt", folder / f"user{number}.key")
            signing.ensure_client(pair, name, groups)
            context = ssl.create_default_context(cafile=str(authority.certificate))
            context.load_cert_chain(pair.certificate, pair.key)
            self._connections[name] = HTTPSConnection(self._host, self._port, context=context, timeout=60)

    def send(self, name, method, path, body=None, headers=()):
        """Send one request; returns its status and the body, decoded if it is JSON."""
        connection = self._connections[name]
        content = b"" if body is None else json.dumps(body).encode()
        connection.putrequest(method, path)
        connection.putheader("Content-Type", content_type(method, path))
        connection.putheader("Content-Length", str(len(content)))
        for header, value in headers:
            connection.putheader(header, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        text = answer.read()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode()

    def answer(self, *step):
        """Send a step; returns the summary of the answer."""
        return summary(*self.send(*step))

    def items(self, kind):
        """All objects of a kind of RBAC, with their paths."""
        for item in self.send(ADMIN, "GET", f"{RBAC}/{kind}")[1]["items"]:
            metadata = item["metadata"]
            scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
            yield f"{RBAC}{scope}/{kind}/{metadata['name']}", item

    def reset(self):
        """Delete what programs create, and all roles and bindings but the default ones."""
        for path in ("namespaces/x/pods/p?gracePeriodSeconds=0", "persistentvolumes/volume"):
            self.send(ADMIN, "DELETE", f"/api/v1/{path}")
        for kind in KINDS:
            for path, item in list(self.items(kind)):
                if "kubernetes.io/bootstrapping" not in item["metadata"].get("labels", {}):
                    self.send(ADMIN, "DELETE", path)

    def close(self):
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kube-apiserver")
    with kube_apiserver_plane(folder) as config:
        client = Client(config, KeyPair(folder / "pki" / "ca.crt", folder / "pki" / "ca.key"), folder)
        yield client
        client.close()


def converged(real, step, expected):
    """Answer a step; kube-apiserver decides by caches that follow its own writes with a delay."""
    for _ in range(200):
        answer = real.answer(*step)
        if expected is None or answer == expected:
            return answer
    return answer


@pytest.mark.parametrize("name", PROGRAMS)
def test_kube_apiserver_answers_as_recorded(real, name):
    recording = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    real.reset()
    real.send(*NAMESPACE)
    answers = []
    for number, step in enumerate(PROGRAMS[name]):
        expected = None if os.environ.get("KAPI_RECORD") else recording[name][number]
        answers.append(converged(real, step, expected))
        assert expected in (None, answers[-1]), step
    if os.environ.get("KAPI_RECORD"):
        lines = [f"{json.dumps(key)}: [\n{_lines(value)}\n]" for key, value in {**recording, name: answers}.items()]
        RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(answers):
    return ",\n".join(json.dumps(answer) for answer in answers)


def test_every_cell_of_the_matrix_is_decided_alike(real):
    real.reset()
    for name in ("x", "y"):
        real.send(ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    for path, obj in matrix.objects():
        assert real.send(ADMIN, "POST", path, obj)[0] == 201
    allowed = matrix.allowed_cells()
    wrong = []
    for cell in matrix.cells():
        for selector in matrix.SELECTORS if not cell.path else ({},):
            step = (ADMIN, "POST", f"{AUTHZ}/subjectaccessreviews", {"spec": matrix.review(cell, selector)})
            # Only the first answers can be older than the policy.
            for _ in range(200):
                answer = real.send(*step)[1]["status"]["allowed"]
                if answer is (cell in allowed):
                    break
            else:
                wrong.append((cell, selector))
    assert wrong == []


def test_default_roles_and_bindings_are_those_of_kube_apiserver(real):
    for kind, ours in zip(KINDS, bootstrap_policy(), strict=True):
        theirs = {}
        for path, item in real.items(kind):
            if "kubernetes.io/bootstrapping" in item["metadata"].get("labels", {}):
                theirs[path] = _essence(item)
        assert len(ours) == len(theirs)
        for obj in ours:
            namespace = obj["metadata"].get("namespace")
            scope = f"/namespaces/{namespace}" if namespace else ""
            assert _essence(obj) == theirs[f"{RBAC}{scope}/{kind}/{obj['metadata']['name']}"]


def _essence(obj):
    metadata = {key: obj["metadata"].get(key) for key in ("name", "namespace", "labels", "annotations")}
    fields = {key: obj.get(key) or None for key in ("rules", "aggregationRule", "roleRef", "subjects")}
    return {"metadata": metadata, **fields}
