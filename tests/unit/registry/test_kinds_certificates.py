from __future__ import annotations

import base64
import copy
import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kind_support import NOW_TEXT, a_write, create_errors, created, status_errors, texts, thing, updated

from kapi.api.user import User
from kapi.registry.kinds.certificates import ApprovalStrategy, CertificateSigningRequestStrategy

STRATEGY = CertificateSigningRequestStrategy()
APPROVAL = ApprovalStrategy()
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
KEY = ec.generate_private_key(ec.SECP256R1())


def _pem(thing_):
    return base64.b64encode(thing_.public_bytes(serialization.Encoding.PEM)).decode()


REQUEST = _pem(x509.CertificateSigningRequestBuilder().subject_name(NAME).sign(KEY, hashes.SHA256()))
CERTIFICATE = _pem(
    x509.CertificateBuilder()
    .subject_name(NAME)
    .issuer_name(NAME)
    .public_key(KEY.public_key())
    .serial_number(1)
    .not_valid_before(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    .not_valid_after(dt.datetime(2027, 1, 1, tzinfo=dt.UTC))
    .sign(KEY, hashes.SHA256())
)
SPEC = {"request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]}


def test_the_requesting_user_is_recorded():
    obj, errors = created(
        STRATEGY,
        thing(spec={**SPEC, "username": "liar", "extra": {"a": ["b"]}}, status={"certificate": CERTIFICATE}),
        user=User("ann", ("g",), uid="1"),
    )
    assert errors == []
    assert obj["spec"] == {**SPEC, "username": "ann", "uid": "1", "groups": ["g"]}
    assert obj["status"] == {}


SIGNER = "must be a fully qualified domain and path of the form 'example.com/signer-name'"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"request": "eA=="}, ['spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST']),
        ({"request": CERTIFICATE}, [f'spec.request: Invalid value: "{CERTIFICATE}": PEM block type must be CERTIFICATE REQUEST']),
        ({"usages": []}, ["spec.usages: Required value"]),
        ({"usages": ["client auth", "client auth"]}, ['spec.usages[1]: Duplicate value: "client auth"']),
        ({"signerName": ""}, ["spec.signerName: Required value"]),
        ({"signerName": "x"}, [f'spec.signerName: Invalid value: "x": {SIGNER}']),
        ({"signerName": "x/y"}, ['spec.signerName: Invalid value: "x": should be a domain with at least two segments separated by dots']),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            [
                ('spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": '
                "the legacy signerName is not allowed via this API version")
            ],
        ),
        (
            {"expirationSeconds": 599},
            ["spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"],
        ),
    ],
)  # fmt: skip
def test_rules(change, wrong):
    assert create_errors(STRATEGY, thing(spec={**SPEC, **change})) == wrong


def test_unknown_usage_lists_the_known_ones():
    (error,) = create_errors(STRATEGY, thing(spec={**SPEC, "usages": ["x"]}))
    assert error.startswith('spec.usages[0]: Unsupported value: "x": supported values: "any", "cert sign", ')


def test_broken_request():
    broken = base64.b64encode(
        b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
    ).decode()
    (error,) = create_errors(STRATEGY, thing(spec={**SPEC, "request": broken}))
    assert error.startswith(f'spec.request: Invalid value: "{broken}": ')


def test_spec_and_status_do_not_change_on_the_main_endpoint():
    old = thing(spec=SPEC, status={"conditions": [{"type": "Approved", "status": "True"}]})
    obj, errors = updated(STRATEGY, thing(spec={}, status={}), old)
    assert errors == []
    assert obj["spec"] == SPEC
    assert obj["status"] == old["status"]


def _approve(old, *conditions):
    obj = copy.deepcopy({**old, "spec": {}, "status": {"conditions": list(conditions), "certificate": CERTIFICATE}})
    writing = a_write()
    APPROVAL.prepare_update(writing, obj, old)
    return obj, texts(APPROVAL.validate_update(writing, obj, old))


def test_approval_changes_conditions_only():
    old = thing(spec=SPEC, status={})
    obj, errors = _approve(old, {"type": "Approved", "status": "True"})
    assert errors == []
    assert obj["spec"] == SPEC
    stamped = {"type": "Approved", "status": "True", "lastUpdateTime": NOW_TEXT, "lastTransitionTime": NOW_TEXT}
    assert obj["status"] == {"conditions": [stamped]}


def test_approval_conditions_are_not_removed():
    old = thing(spec=SPEC, status={"conditions": [{"type": "Approved", "status": "True"}]})
    assert _approve(old)[1] == ['status.conditions: Forbidden: updates may not remove a condition of type "Approved"']
    both = ({"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"})
    assert _approve(old, *both)[1] == [
        'status.conditions[1].status: Unsupported value: "False": supported values: "True"',
        'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive',
    ]


def test_signers_set_the_certificate_once_and_no_approval():
    old = thing(spec=SPEC, status={})
    signed = thing(spec=SPEC, status={"certificate": CERTIFICATE})
    assert status_errors(STRATEGY, signed, old) == []
    approved = thing(spec=SPEC, status={"conditions": [{"type": "Approved", "status": "True"}]})
    assert status_errors(STRATEGY, approved, old) == [
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
    ]
    assert status_errors(STRATEGY, thing(spec=SPEC, status={}), signed) == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]
    assert status_errors(STRATEGY, thing(spec=SPEC, status={"certificate": REQUEST}), old) == [
        (
            'status.certificate: Invalid value: "<certificate data>": '
            'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'
        )
    ]


def test_selectable_by_signer():
    assert STRATEGY.selectable(thing(spec=SPEC)) == {"spec.signerName": "example.com/signer"}
