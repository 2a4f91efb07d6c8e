"""Admission plug-ins compared with a real kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

The programs of `admission_programs` must be answered as in `tests/recordings/admission.json`, which Kapi is tested
against in `tests/unit/server/test_admission_programs.py`; with KAPI_RECORD=1 the recording is written instead.
"""

import json
import os
import ssl
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml

from admission_programs import CONFIGURATION, PROGRAMS, body_of, content_type, is_repeatable, path_of, summary
from kube_apiserver_plane import kube_apiserver_plane

RECORDING = Path(__file__).parents[1] / "recordings" / "admission.json"
RECORD = bool(os.environ.get("KAPI_RECORD"))
ATTEMPTS = 500


class Client:
    """Requests of the administrator."""

    def __init__(self, config):
        config = yaml.safe_load(config.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        host, _, port = cluster["server"].removeprefix("https://").partition(":")
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        self._connection = HTTPSConnection(host, int(port), context=context, timeout=60)

    def send(self, method, path, body=b"", kind="application/json"):
        self._connection.request(method, path, body, {"Content-Type": kind})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self):
        self._connection.close()

    def answer(self, step, namespace):
        status, body = self.send(step[0], path_of(step, namespace), body_of(step, namespace), content_type(step))
        return summary(status, body, namespace)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kube-apiserver")
    settings = folder / "admission.yaml"
    plugins = [{"name": "ResourceQuota", "configuration": CONFIGURATION}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    settings.write_text(yaml.safe_dump({**kind, "plugins": plugins}))
    with kube_apiserver_plane(folder, admission=(f"--admission-control-config-file={settings}",)) as config:
        client = Client(config)
        yield client
        client.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_kube_apiserver_answers_as_recorded(real, name):
    recording = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    namespace = f"ns{list(PROGRAMS).index(name)}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert real.send("POST", "/api/v1/namespaces", json.dumps(made).encode())[0] == 201
    answers = []
    for number, step in enumerate(PROGRAMS[name]):
        if RECORD and is_repeatable(step):
            time.sleep(1)  # for the informers of kube-apiserver
        answers.append(real.answer(step, namespace))
        if not RECORD:
            expected = recording[name][number]
            for _ in range(ATTEMPTS if is_repeatable(step) else 0):
                if answers[-1] == expected:
                    break
                answers[-1] = real.answer(step, namespace)
            assert answers[-1] == expected, step
    if RECORD:
        lines = [f"{json.dumps(key)}: [\n{_lines(value)}\n]" for key, value in {**recording, name: answers}.items()]
        RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(answers):
    return ",\n".join(json.dumps(answer) for answer in answers)
