from __future__ import annotations

import pytest
from kind_support import a_write, assert_idempotent, created, status_errors, texts, update_errors, updated

from kapi.registry.kinds.core.namespaces import NamespaceFinalizeStrategy, NamespaceStrategy

STRATEGY = NamespaceStrategy()
FINALIZE = NamespaceFinalizeStrategy()


def _namespace(name="a", **fields):
    return {"metadata": {"name": name}, **fields}


def test_new_namespace_is_active_with_label_and_finalizer():
    obj, errors = created(STRATEGY, _namespace(status={"phase": "Terminating"}))
    assert errors == []
    assert obj == {
        "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    assert_idempotent(STRATEGY, _namespace())


def test_label_cannot_be_changed_or_removed():
    obj = {"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "b", "x": "y"}}}
    STRATEGY.default(obj)
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a", "x": "y"}


def test_finalizers_of_the_client_are_kept_with_the_kubernetes_one():
    obj, errors = created(STRATEGY, _namespace(spec={"finalizers": ["example.com/x"]}))
    assert obj["spec"]["finalizers"] == ["example.com/x", "kubernetes"]
    assert errors == []


def test_finalizers_are_qualified():
    _, errors = created(STRATEGY, _namespace(spec={"finalizers": ["x"]}))
    assert errors == [
        'spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified'
    ]


def test_ordinary_update_keeps_finalizers():
    old, _ = created(STRATEGY, _namespace())
    obj, errors = updated(STRATEGY, {**old, "spec": {"finalizers": []}}, old)
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert errors == []


def test_finalize_changes_finalizers_and_keeps_status():
    old, _ = created(STRATEGY, _namespace())
    wanted = {**old, "spec": {"finalizers": []}, "status": {"phase": "Gone"}}
    FINALIZE.prepare_update(a_write(), wanted, old)
    assert wanted["spec"] == {"finalizers": []}
    assert wanted["status"] == {"phase": "Active"}
    assert update_errors(FINALIZE, {**old, "spec": {"finalizers": ["a b"]}}, old)[0].startswith("spec.finalizers[0]: ")


@pytest.mark.parametrize(
    ("deleting", "phase", "wrong"),
    [
        (False, "Active", []),
        (True, "Terminating", []),
        (
            False,
            "Terminating",
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"],
        ),
        (
            True,
            "Active",
            ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"],
        ),
    ],
)
def test_phase_follows_deletion(deleting, phase, wrong):
    metadata = {"name": "a", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}
    assert (
        status_errors(STRATEGY, {"metadata": metadata, "status": {"phase": phase}}, {"metadata": dict(metadata)})
        == wrong
    )


def test_name_is_a_label_and_phase_is_selectable():
    assert STRATEGY.validate_name("a") == []
    assert STRATEGY.validate_name("a.b") != []
    assert STRATEGY.selectable(_namespace(status={"phase": "Active"})) == {"status.phase": "Active"}
    assert texts(STRATEGY.validate_update(a_write(), _namespace(), _namespace())) == []
