"""Levels, versions and labels of the Pod Security Standards."""

import pytest

from kapi.server.admission.podsecurity.levels import (
    BASELINE,
    LATEST,
    PRIVILEGED,
    RESTRICTED,
    LevelVersion,
    Policy,
    is_version,
    policy_of,
)

DEFAULTS = Policy()
PREFIX = "pod-security.kubernetes.io/"


def labels(**values):
    return {f"{PREFIX}{key.replace('_', '-')}": value for key, value in values.items()}


@pytest.mark.parametrize("text", ["latest", "v1.0", "v1.9", "v1.36", "v1.9223372036854775807"])
def test_a_version_is_latest_or_a_minor_of_v1(text):
    assert is_version(text)


@pytest.mark.parametrize(
    "text", ["", "v1", "v2.0", "v1.01", "1.36", "v1.x", "v1.9223372036854775808", "v1.1\n", "v1.٣"]
)
def test_other_texts_are_no_versions(text):
    assert not is_version(text)


def test_a_namespace_without_labels_has_the_defaults():
    defaults = Policy(LevelVersion(BASELINE, "v1.20"), LevelVersion(RESTRICTED), LevelVersion(PRIVILEGED))
    assert policy_of(None, defaults) == (defaults, [])
    assert policy_of({"kubernetes.io/metadata.name": "a"}, defaults) == (defaults, [])


def test_what_is_enforced_is_warned_about_unless_a_label_says_otherwise():
    enforced = LevelVersion(RESTRICTED, "v1.24")
    policy, errors = policy_of(labels(enforce="restricted", enforce_version="v1.24"), DEFAULTS)
    assert (policy, errors) == (Policy(enforced, LevelVersion(PRIVILEGED), enforced), [])
    policy, _ = policy_of(labels(enforce="restricted", enforce_version="v1.24", warn_version="v1.25"), DEFAULTS)
    assert policy.warn == LevelVersion(RESTRICTED, "v1.25")
    policy, _ = policy_of(labels(enforce="restricted", warn="baseline"), DEFAULTS)
    assert policy.warn == LevelVersion(BASELINE, LATEST)
    policy, _ = policy_of(labels(enforce="baseline"), Policy(warn=LevelVersion(RESTRICTED)))
    assert policy.warn == LevelVersion(RESTRICTED)


def test_wrong_labels_are_restricted_where_enforced_and_privileged_elsewhere():
    given = labels(enforce="x", enforce_version="y", audit="x", warn="x", warn_version="v1.1")
    policy, errors = policy_of(given, DEFAULTS)
    assert policy == Policy(LevelVersion(RESTRICTED), LevelVersion(PRIVILEGED), LevelVersion(PRIVILEGED, "v1.1"))
    assert [str(error) for error in errors] == [
        f'metadata.labels[{PREFIX}enforce]: Invalid value: "x": must be one of privileged, baseline, restricted',
        f'metadata.labels[{PREFIX}enforce-version]: Invalid value: "y": must be "latest" or "v1.x"',
        f'metadata.labels[{PREFIX}audit]: Invalid value: "x": must be one of privileged, baseline, restricted',
        f'metadata.labels[{PREFIX}warn]: Invalid value: "x": must be one of privileged, baseline, restricted',
    ]


def test_the_version_of_privileged_makes_no_difference():
    assert LevelVersion(PRIVILEGED, "v1.1").is_equivalent(LevelVersion(PRIVILEGED))
    assert not LevelVersion(BASELINE, "v1.1").is_equivalent(LevelVersion(BASELINE))
