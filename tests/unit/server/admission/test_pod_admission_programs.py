"""Programs of requests to admission plug-ins, answered as kube-apiserver v1.36.4 answered them.

`tests/contract/test_pod_admission_parity.py` compares both servers, and makes the recording.
"""

import json
from pathlib import Path

import pytest

from api_client import serving
from kapi.controlplane.admissionoptions import DEFAULT_OFF, AdmissionOptions
from pod_admission_programs import OPT_IN, PROGRAMS, creates_namespace, remember_uids, summary, with_uids
from virtual_time import run

RECORDING = Path(__file__).parents[3] / "recordings" / "pod_admission.json"
OPTIONS = AdmissionOptions(frozenset(OPT_IN) & DEFAULT_OFF, frozenset({"Priority", "ServiceAccount"}))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_answered_as_kube_apiserver_answers_it(name):
    async def main():
        uids, found = {}, []
        async with serving(admission_options=OPTIONS) as api:
            for step in PROGRAMS[name]:
                user, method, path, body = step
                content = b"" if body is None else with_uids(body, uids)
                headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
                transport = api.user(*user)
                answer = await api.request(method, path, content, headers=headers, transport=transport)
                remember_uids(uids, answer.json)
                if not creates_namespace(step):
                    found.append((step, summary(answer.status, answer.json, answer.warnings)))
        return found

    recorded = json.loads(RECORDING.read_text())[name]
    answered = run(main())
    assert len(answered) == len(recorded)
    for (step, answer), expected in zip(answered, recorded, strict=True):
        assert answer == expected, step
