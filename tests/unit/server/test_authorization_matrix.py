"""The authorization matrix: users, verbs, resources, scopes, names, selectors, against an independent model.

`tests/contract/test_authorization_parity.py` asks a real kube-apiserver the same.
"""

import authorization_matrix as matrix
from api_client import NS, served
from kapi.api.user import User
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.authorizationoptions import AuthorizationOptions
from kapi.server.authz.attributes import reviewed_attributes


async def grant(api):
    for name in ("x", "y"):
        await api.made(NS, {"metadata": {"name": name}})
    for path, obj in matrix.objects():
        await api.made(path, obj)


@served
async def test_every_cell_of_the_matrix_is_decided_as_the_model_decides_it(api):
    await grant(api)
    authorizer = Authorization(AuthorizationOptions(), api.catalog, clock=api.clock).authorizer
    users = {name: User(name, groups) for name, groups in matrix.SUBJECTS.items()}
    allowed, count, wrong = matrix.allowed_cells(), 0, []
    for cell in matrix.cells():
        for selector in matrix.SELECTORS if not cell.path else ({},):
            attributes = reviewed_attributes(users[cell.user], matrix.review(cell, selector))
            decision = authorizer.decide(attributes)
            count += 1
            if (decision is not None and decision.allowed) is not (cell in allowed):
                wrong.append((cell, selector, decision))
    assert wrong == []
    assert count > 10_000
    # The matrix is worth something: many cells are allowed, and many are not.
    assert 1000 < len(allowed) < count / 3


@served
async def test_a_planted_mistake_is_noticed_by_the_model(api):
    await grant(api)
    await api.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/m-scale")
    authorizer = Authorization(AuthorizationOptions(), api.catalog, clock=api.clock).authorizer
    allowed = matrix.allowed_cells()
    differences = 0
    for cell in matrix.cells():
        attributes = reviewed_attributes(User(cell.user, matrix.SUBJECTS[cell.user]), matrix.review(cell, {}))
        decision = authorizer.decide(attributes)
        differences += (decision is not None and decision.allowed) is not (cell in allowed)
    assert differences > 0
