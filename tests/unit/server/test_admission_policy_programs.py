"""Random policies are evaluated as a kube-apiserver did: same refusals in the same words, same warnings.

The recording is written by tests/contract/test_admission_policy_parity.py, which also compares the objects that are
stored, and many more programs.
"""

import json
from pathlib import Path

import pytest

import policy_programs
from api_client import serving
from virtual_time import run

RECORDING = json.loads((Path(__file__).parents[2] / "recordings" / "admission_policies.json").read_text())


@pytest.fixture(scope="module")
def answers():
    return run(policy_programs.answered_by_kapi(serving, [policy_programs.PROGRAMS[name] for name in RECORDING]))


@pytest.mark.parametrize("name", RECORDING)
def test_a_program_is_answered_as_recorded(answers, name):
    for step, answer, recorded in zip(
        policy_programs.PROGRAMS[name].steps, answers[name], RECORDING[name], strict=True
    ):
        assert policy_programs.verdict(answer) == recorded, step
