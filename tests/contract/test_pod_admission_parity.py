"""Admission plug-ins compared with a real kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

Each request is sent to both: the answers must be the same, objects as they are stored and refusals word for word. They
must also be as in `tests/recordings/pod_admission.json`; with KAPI_RECORD=1 the recording is written instead.
"""

import json
import os
import re
import ssl
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml

from api_client import serving
from kapi.controlplane.admissionoptions import DEFAULT_OFF, AdmissionOptions
from kube_apiserver_plane import kube_apiserver_plane
from pod_admission_programs import ADMIN, OPT_IN, PROGRAMS, creates_namespace, remember_uids, summary, with_uids
from pod_security_pods import LEVELS, VERSIONS, random_pod
from virtual_time import run

RECORDING = Path(__file__).parents[1] / "recordings" / "pod_admission.json"
PODS = 320
"""Pods at random, each sent to a namespace of each level."""
PREFIX = "pod-security.kubernetes.io/"
OFF = frozenset({"Priority", "ServiceAccount"})
"""Plug-ins that are not compared here, and change every Pod."""
OPTIONS = AdmissionOptions(frozenset(OPT_IN) & DEFAULT_OFF, OFF)
FLAGS = (
    f"--enable-admission-plugins={','.join(OPT_IN)}",
    f"--disable-admission-plugins={','.join(OFF)}",
    "--allow-privileged=true",
)
PATCH = "application/merge-patch+json"
UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VOLATILE = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "deletionTimestamp")
ATTEMPTS = 60


class Real:
    """Requests to kube-apiserver by users that the administrator impersonates."""

    def __init__(self, config):
        loaded = yaml.safe_load(config.read_text())
        cluster, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        self._connection = HTTPSConnection(cluster["server"].removeprefix("https://"), context=context, timeout=60)

    def send(self, user, method, path, body):
        """Send a request; returns the status, the object and the warnings."""
        connection = self._connection
        content = b"" if body is None else json.dumps(body).encode()
        connection.putrequest(method, path)
        connection.putheader("Content-Type", PATCH if method == "PATCH" else "application/json")
        connection.putheader("Content-Length", str(len(content)))
        connection.putheader("Impersonate-User", user[0])
        for group in user[1:]:
            connection.putheader("Impersonate-Group", group)
        connection.endheaders(content)
        answer = connection.getresponse()
        obj = json.loads(answer.read())
        warnings = [value[7:-1].replace('\\"', '"') for value in answer.headers.get_all("Warning") or ()]
        return answer.status, obj, warnings

    def close(self):
        self._connection.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kube-apiserver")
    with kube_apiserver_plane(folder, admission=FLAGS) as config:
        client = Real(config)
        yield client
        client.close()


async def ours(api, user, method, path, body):
    """Send the same request to an in-process server."""
    headers = {"content-type": PATCH} if method == "PATCH" else {}
    transport = api.user(*user)
    answer = await api.request(method, path, b"" if body is None else body, headers=headers, transport=transport)
    return answer.status, answer.json, answer.warnings


def comparable(status, obj, warnings):
    """An answer without what differs between any two servers."""
    if obj.get("kind") == "Status":
        details = {key: value for key, value in (obj.get("details") or {}).items() if key != "uid"}
        message = UID.sub("<uid>", obj.get("message", ""))
        return status, obj.get("reason"), message, details, warnings
    metadata = {key: value for key, value in obj["metadata"].items() if key not in VOLATILE}
    shown = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    shown.get("spec", {}).pop("request", None)  # of a certificate; it is made anew each time
    return status, json.loads(UID.sub("<uid>", json.dumps({**shown, "metadata": metadata}))), warnings


def is_repeatable(method, path):
    return method == "GET" or "dryRun" in path


async def answers(api, real, uids, step, attempts=ATTEMPTS):
    """Our answer to a step, and that of kube-apiserver, which is asked again while it differs."""
    user, method, path, body = step
    mine, theirs = uids
    answer = await ours(api, user, method, path, with_uids(body, mine))
    for _ in range(attempts if is_repeatable(method, path) else 1):
        other = real.send(user, method, path, with_uids(body, theirs))
        if comparable(*answer) == comparable(*other):
            break
    remember_uids(mine, answer[1])
    remember_uids(theirs, other[1])
    return answer, other


def reset(real):
    """Delete what a program creates, so that the next one begins as on an empty server."""
    for path in ("nodes/n1", "nodes/n2"):
        real.send(ADMIN, "DELETE", f"/api/v1/{path}", None)
    for name in ("bound", "mine", "other", "plain", "claimed", "migrated"):
        real.send(ADMIN, "DELETE", f"/api/v1/namespaces/a/pods/{name}?gracePeriodSeconds=0", None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kube_apiserver_answers_a_program_alike_and_as_recorded(real, name):
    async def main():
        uids, different, recorded = ({}, {}), [], []
        async with serving(admission_options=OPTIONS) as api:
            for step in PROGRAMS[name]:
                answer, other = await answers(api, real, uids, step)
                if not creates_namespace(step):
                    recorded.append(summary(*other))
                    if comparable(*answer) != comparable(*other):
                        different.append((step, comparable(*answer), comparable(*other)))
        return different, recorded

    reset(real)
    different, recorded = run(main())
    assert different == []
    known = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    if os.environ.get("KAPI_RECORD"):
        known[name] = recorded
        lines = [f"{json.dumps(key)}: [\n{_lines(value)}\n]" for key, value in known.items()]
        RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert recorded == known[name]


def _lines(recorded):
    return ",\n".join(json.dumps(answer) for answer in recorded)


def test_pods_are_refused_and_warned_about_alike(real):
    def place(level, version):
        return f"{level}-{version}".replace(".", "-")

    async def compare(api, step):
        found = await answers(api, real, ({}, {}), step, attempts=1)
        answer, other = (comparable(*one) for one in found)
        return [] if answer == other else [(step, answer, other)]

    async def main():
        found = []
        async with serving(admission_options=OPTIONS) as api:
            for level in LEVELS:
                for version in VERSIONS:
                    labels = {f"{PREFIX}enforce": level, f"{PREFIX}enforce-version": version}
                    namespace = {"metadata": {"name": place(level, version), "labels": labels}}
                    found += await compare(api, (ADMIN, "POST", "/api/v1/namespaces", namespace))
            for seed in range(PODS):
                for level in LEVELS:
                    path = f"/api/v1/namespaces/{place(level, VERSIONS[seed % len(VERSIONS)])}/pods?dryRun=All"
                    found += await compare(api, (ADMIN, "POST", path, random_pod(seed)))
        return found

    assert run(main()) == []
