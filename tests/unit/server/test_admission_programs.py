"""The programs of `admission_programs` are answered as kube-apiserver has answered them."""

import json
from pathlib import Path

import pytest
import yaml

from admission_programs import CONFIGURATION, PROGRAMS, body_of, content_type, path_of, summary
from api_client import serving
from kapi.controlplane.admissionoptions import AdmissionOptions
from virtual_time import run

RECORDING = json.loads((Path(__file__).parents[2] / "recordings" / "admission.json").read_text())
NS = "under-test"


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_those_of_kube_apiserver(name, tmp_path):
    settings = tmp_path / "admission.yaml"
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    settings.write_text(
        yaml.safe_dump({**kind, "plugins": [{"name": "ResourceQuota", "configuration": CONFIGURATION}]})
    )

    async def main():
        async with serving(admission_options=AdmissionOptions(config_file=settings)) as api:
            await api.made("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
            for step, expected in zip(PROGRAMS[name], RECORDING[name], strict=True):
                headers = {"content-type": content_type(step)}
                answer = await api.request(step[0], path_of(step, NS), body_of(step, NS), headers=headers)
                assert summary(answer.status, answer.json, NS) == expected, step

    run(main())
