"""Random webhook configurations have the effect that they had on a kube-apiserver: verdicts, messages, objects, calls.

The recording is written by tests/contract/test_webhook_parity.py, which compares many more programs.
"""

import asyncio
import json
from pathlib import Path

import pytest

from admission_webhook import on_kapi
from webhook_programs import PROGRAMS, outcomes
from webhook_server import Certificates

RECORDING = json.loads((Path(__file__).parents[2] / "recordings" / "webhooks.json").read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    programs = [PROGRAMS[int(number)] for number in RECORDING]
    return asyncio.run(on_kapi(certificates, lambda send, webhook: outcomes(send, webhook, programs)))


@pytest.mark.parametrize("number", RECORDING)
def test_a_program_has_the_recorded_effect(found, number):
    program = PROGRAMS[int(number)]
    for step, outcome, recorded in zip(program.steps, found[program.number], RECORDING[number], strict=True):
        assert outcome.summary() == recorded, (step, outcome)
