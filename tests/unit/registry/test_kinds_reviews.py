from __future__ import annotations

import pytest

from kapi.api.errors import BadRequest, Invalid
from kapi.registry.kinds import authentication, authorization

RESOURCE = {"verb": "get", "resource": "pods", "namespace": "n"}


def _refused(check, *arguments):
    with pytest.raises(Invalid) as refused:
        check(*arguments)
    return refused.value.message


def _review(metadata=None, **spec):
    return {"metadata": metadata or {}, "spec": spec}


def test_token_review_needs_a_token():
    authentication.check_token_review(_review(token="x"))
    with pytest.raises(BadRequest, match=r"^token is required for TokenReview in authentication$"):
        authentication.check_token_review(_review())


def test_rules_review_needs_a_namespace():
    authorization.check_self_subject_rules_review(_review(namespace="n"))
    with pytest.raises(BadRequest, match=r"^no namespace on request$"):
        authorization.check_self_subject_rules_review(_review())


ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def test_access_review_needs_a_subject_and_attributes():
    authorization.check_subject_access_review(_review(user="u", resourceAttributes=RESOURCE))
    authorization.check_subject_access_review(
        _review(groups=["g"], nonResourceAttributes={"path": "/x", "verb": "get"})
    )
    assert _refused(authorization.check_subject_access_review, _review()) == (
        '.authorization.k8s.io "" is invalid: '
        f"[spec.resourceAttributes: Invalid value: null: {ONE_OF}, "
        'spec.user: Invalid value: "": at least one of user or group must be specified]'
    )
    both = _review(user="u", resourceAttributes=RESOURCE, nonResourceAttributes={"path": "/x"})
    assert _refused(authorization.check_subject_access_review, both) == (
        '.authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":""}: '
        "cannot be specified in combination with resourceAttributes"
    )


def test_self_review_needs_no_subject_and_no_metadata():
    authorization.check_self_subject_access_review(_review({"managedFields": [{}]}, resourceAttributes=RESOURCE))
    assert _refused(
        authorization.check_self_subject_access_review, _review({"name": "x"}, resourceAttributes=RESOURCE)
    ) == ('.authorization.k8s.io "" is invalid: metadata: Invalid value: {"name":"x"}: must be empty')


def test_local_review_stays_in_its_namespace():
    review = _review({"namespace": "n"}, user="u", resourceAttributes=RESOURCE)
    authorization.check_local_subject_access_review(review, "n")
    elsewhere = _review({"namespace": "m"}, user="u", resourceAttributes=RESOURCE)
    assert _refused(authorization.check_local_subject_access_review, elsewhere, "m") == (
        '.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "n": '
        "must match metadata.namespace"
    )
    with pytest.raises(BadRequest, match="must match namespace: x"):
        authorization.check_local_subject_access_review(review, "x")
    urls = _review({"namespace": "n"}, user="u", nonResourceAttributes={"path": "/x"})
    assert "disallowed on this kind of request" in _refused(authorization.check_local_subject_access_review, urls, "n")


def test_selectors_in_reviews():
    attributes = {**RESOURCE, "labelSelector": {"requirements": [{"key": "a", "operator": "In"}]}, "fieldSelector": {}}
    message = _refused(authorization.check_self_subject_access_review, _review(resourceAttributes=attributes))
    where = "spec.resourceAttributes"
    assert message == (
        f'.authorization.k8s.io "" is invalid: [{where}.fieldSelector.requirements: Required value: '
        f"when {where}.fieldSelector is specified, requirements or rawSelector is required, "
        f"{where}.labelSelector.requirements[0].values: Required value: "
        "must be specified when `operator` is 'In' or 'NotIn']"
    )
    unknown = {**RESOURCE, "labelSelector": {"requirements": [{"key": "a", "operator": "New"}]}}
    authorization.check_self_subject_access_review(_review(resourceAttributes=unknown))
