"""Programs of requests about authorization, answered as kube-apiserver v1.36 answers them.

Its answers are in `tests/recordings`; `tests/contract/test_authorization_parity.py` records them.
"""

import json
from pathlib import Path

import pytest

from api_client import served
from authorization_programs import NAMESPACE, PROGRAMS, USERS, content_type, summary
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.authorizationoptions import AuthorizationOptions
from kapi.controlplane.rbac.reconciliation import ensure_policy

RECORDING = json.loads((Path(__file__).parents[2] / "recordings" / "authorization.json").read_text())


async def answer(api, transports, user, method, path, body=None, headers=()):
    joined = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}\n{value}" if name in joined else value
    joined["content-type"] = content_type(method, path)
    content = b"" if body is None else json.dumps(body).encode()
    reply = await api.request(method, path, content, headers=joined, transport=transports[user])
    try:
        return summary(reply.status, reply.json)
    except ValueError:
        return summary(reply.status, reply.text)


@pytest.mark.parametrize("name", PROGRAMS)
@served
async def test_every_step_of_a_program_is_answered_as_kube_apiserver_answers_it(api, name):
    await ensure_policy(api.transport, api.catalog)
    api.services.authorizer = Authorization(AuthorizationOptions(), api.catalog, clock=api.clock).authorizer
    transports = {user: api.user(user, *groups) for user, groups in USERS.items()}
    await answer(api, transports, *NAMESPACE)
    recorded = RECORDING[name]
    assert len(recorded) == len(PROGRAMS[name])
    for step, expected in zip(PROGRAMS[name], recorded, strict=True):
        assert await answer(api, transports, *step) == expected, step
