"""Admission policies compared with a real kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

Some hundred random programs of `policy_programs` are sent to both: verdicts, messages, warnings and the objects that
result must be the same. With KAPI_RECORD=1 the verdicts of the first programs are written to
`tests/recordings/admission_policies.json`, which tests without a kube-apiserver use.
"""

import json
import os
import ssl
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml

import policy_programs
from api_client import serving
from kube_apiserver_plane import kube_apiserver_plane
from policy_programs import ADMISSION, BEFORE_ALL, PROGRAMS, RECORDED, Step, summary, verdict
from virtual_time import run

RECORDING = Path(__file__).parents[1] / "recordings" / "admission_policies.json"


class Client:
    """Requests of an administrator who impersonates others."""

    def __init__(self, config):
        config = yaml.safe_load(config.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        host, _, port = cluster["server"].removeprefix("https://").partition(":")
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        self._connection = HTTPSConnection(host, int(port), context=context, timeout=60)

    def send(self, step):
        """Send a step; returns the summary of the answer."""
        body = b"" if step.body is None else json.dumps(step.body).encode()
        self._connection.request(step.method, step.path, body, dict(step.headers()))
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        warnings = [value for name, value in answer.getheaders() if name.lower() == "warning"]
        texts = [one.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for one in warnings]
        return summary(answer.status, content, texts)

    def close(self):
        """Close the connection."""
        self._connection.close()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    with kube_apiserver_plane(tmp_path_factory.mktemp("kube-apiserver")) as config:
        client = Client(config)
        for step in BEFORE_ALL:
            assert client.send(step)[0] == 201
        served(client, "/apis/policies.example.com/v1/widgets")
        for program in PROGRAMS.values():
            for step in program.setup:
                assert client.send(step)[0] == 201, step
        in_effect(client)
        yield {name: [client.send(step) for step in program.steps] for name, program in PROGRAMS.items()}
        client.close()


def served(client, path):
    """Wait until a custom resource is served."""
    for _ in range(600):
        if client.send(Step("GET", path))[0] == 200:
            return
        time.sleep(0.1)
    pytest.fail(f"{path} is not served")


def in_effect(client):
    """Wait until a policy that is created last is enforced: kube-apiserver reads its policies once a second."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    client.send(Step("POST", f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "last"}, "spec": spec}))
    bound = {"policyName": "last", "validationActions": ["Deny"]}
    client.send(
        Step("POST", f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "last"}, "spec": bound})
    )
    secret = Step("POST", "/api/v1/namespaces/default/secrets?dryRun=All", {"metadata": {"name": "s"}})
    for _ in range(600):
        if client.send(secret)[0] == 422:
            return
        time.sleep(0.1)
    pytest.fail("policies are not enforced")


@pytest.fixture(scope="module")
def ours():
    return run(policy_programs.answered_by_kapi(serving, PROGRAMS.values()))


@pytest.mark.skipif(bool(os.environ.get("KAPI_RECORD")), reason="the answers are recorded")
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_servers_answer_alike(theirs, ours, name):
    for step, their, our in zip(PROGRAMS[name].steps, theirs[name], ours[name], strict=True):
        assert our == their, step


def test_kube_apiserver_answers_as_recorded(theirs):
    verdicts = {name: [verdict(answer) for answer in theirs[name]] for name in RECORDED}
    if os.environ.get("KAPI_RECORD"):
        lines = [f"{json.dumps(name)}: [\n{_lines(answers)}\n]" for name, answers in verdicts.items()]
        RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert verdicts == json.loads(RECORDING.read_text())


def _lines(answers):
    return ",\n".join(json.dumps(answer) for answer in answers)
