"""Job and CronJob."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import kind_support
import pytest

from kapi.registry.kinds.batch.jobspec import parse_indexes

STRATEGIES = kind_support.all_strategies()
JOB, CRON = STRATEGIES["batch", "Job"], STRATEGIES["batch", "CronJob"]
UID = "5d2a7a6e-0000-4000-8000-000000000001"
GENERATED = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": UID,
    "job-name": "j",
}


def a_write():
    return kind_support.a_write(lookup=None, now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


def template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never", **fields}}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "j", "namespace": "n", "uid": UID, "generation": 1},
        "spec": {"template": template(), **spec},
    }


def create(obj: dict[str, Any]) -> list[str]:
    JOB.default(obj)
    JOB.prepare_create(a_write(), obj)
    return [str(error) for error in JOB.validate_create(a_write(), obj)]


def stored(**spec: Any) -> dict[str, Any]:
    obj = job(**spec)
    assert create(obj) == []
    return obj


def update(old: dict[str, Any], **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"] |= spec
    JOB.default(new)
    JOB.prepare_update(a_write(), new, old)
    return list(dict.fromkeys(str(error) for error in JOB.validate_update(a_write(), new, old)))


# -- Job: defaults ----------------------------------------------------------------------------------------------------


def test_a_minimal_job_reads_back_with_the_known_defaults():
    obj = stored()
    spec = obj["spec"]
    assert {key: spec[key] for key in spec.keys() - {"template"}} == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
    }
    assert spec["template"]["metadata"]["labels"] == GENERATED
    assert obj["status"] == {}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"parallelism": 3}, {"parallelism": 3, "completions": None}),
        ({"completions": 3}, {"parallelism": 1, "completions": 3}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2**31 - 1}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
    ],
)
def test_defaults_depend_on_each_other(spec: dict[str, Any], expected: dict[str, Any]):
    obj = job(**spec)
    JOB.default(obj)
    assert {key: obj["spec"].get(key) for key in expected} == expected


def test_conditions_of_pod_failure_policies_default_to_true():
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    obj = job(podFailurePolicy={"rules": [rule]})
    JOB.default(obj)
    assert obj["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"] == [
        {"type": "DisruptionTarget", "status": "True"}
    ]


def test_labels_of_the_job_come_from_its_template():
    obj = job()
    obj["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    assert create(obj) == []
    assert obj["metadata"]["labels"] == {"app": "x", **GENERATED}
    assert obj["spec"]["template"]["metadata"]["labels"] == {"app": "x", **GENERATED}


def test_labels_of_its_own_are_the_only_ones_a_job_has():
    obj = job()
    obj["metadata"]["labels"] = {"mine": "yes"}
    assert create(obj) == []
    assert obj["metadata"]["labels"] == {"mine": "yes"}


def test_a_second_try_with_another_uid_starts_from_the_same_spec():
    obj = job()
    JOB.default(obj)
    first = {**obj, "metadata": {**obj["metadata"], "name": "j-1", "uid": "one"}}
    second = {**obj, "metadata": {**obj["metadata"], "name": "j-2", "uid": "two"}}
    for attempt in (first, second):
        JOB.prepare_create(a_write(), attempt)
        assert JOB.validate_create(a_write(), attempt) == []
    assert second["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": "two"}


def test_a_manual_selector_is_left_alone_and_must_match():
    mine = {"matchLabels": {"app": "x"}}
    obj = job(manualSelector=True, selector=mine)
    obj["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    assert create(obj) == []
    assert obj["spec"]["selector"] == mine
    assert obj["spec"]["template"]["metadata"]["labels"] == {"app": "x"}
    missing = job(manualSelector=True)
    assert create(missing) == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]


def test_labels_that_contradict_the_generated_ones_are_refused():
    obj = job()
    obj["spec"]["template"]["metadata"] = {"labels": {"job-name": "other"}}
    texts = create(obj)
    assert len(texts) == 1
    assert texts[0].startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert texts[0].endswith(": must be 'j'")


def test_flags():
    assert JOB.default_propagation == "Orphan"
    assert CRON.default_propagation == "Background"
    assert JOB.selectable({"status": {"succeeded": 2}}) == {"status.successful": "2"}
    assert JOB.selectable_fields == ("status.successful",)


# -- Job: rules -------------------------------------------------------------------------------------------------------

INDEXED = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}
NEEDS_INDEXED = "requires indexed completion mode"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (
            {"template": template(restartPolicy="")},
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
        ),
        (
            {"template": template(restartPolicy="Foo")},
            [
                (
                    'spec.template.spec.restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", '
                    '"Never"'
                ),
                'spec.template.spec.restartPolicy: Unsupported value: "Foo": supported values: "OnFailure", "Never"',
            ],
        ),
        ({"parallelism": -1}, ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        ({"backoffLimit": -1}, ["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"completionMode": "Odd"},
            ['spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"'],
        ),
        (
            {"completionMode": "Indexed", "parallelism": 1},
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            {**INDEXED, "parallelism": 100_001},
            [
                (
                    "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is "
                    "Indexed"
                )
            ],
        ),
        ({"backoffLimitPerIndex": 1}, [f"spec.backoffLimitPerIndex: Invalid value: 1: {NEEDS_INDEXED}"]),
        (
            {**INDEXED, "maxFailedIndexes": 6},
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions",
            ],
        ),
        (
            {"managedBy": "me"},
            [
                'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
            ],
        ),
        ({"managedBy": "example.com/me"}, []),
        (
            {"podReplacementPolicy": "Never"},
            [
                'spec.podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"',
            ],
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 1, 1, 0]}}]
                }
            },
            [
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 1",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[3]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1,1,0]: must be ordered",
            ],
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": ""}]}},
            [
                (
                    'spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" '
                    '"Ignore"]'
                ),
                (
                    "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is "
                    "required"
                ),
            ],
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "X", "status": "Perhaps"}]}]
                },
                "template": template(restartPolicy="OnFailure"),
            },
            [
                (
                    'spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Perhaps": supported values: '
                    '"False", "True", "Unknown"'
                ),
                (
                    'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when '
                    "podFailurePolicy is specified"
                ),
            ],
        ),
        (
            {"successPolicy": {"rules": []}},
            [f'spec.successPolicy: Invalid value: {{"rules":[]}}: {NEEDS_INDEXED}'],
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-9"}]}},
            [
                (
                    'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-9": error parsing succeededIndexes: too '
                    'large index: "9"'
                )
            ],
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}},
            [
                (
                    "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number "
                    "of indexes in the specified succeededIndexes field)"
                )
            ],
        ),
    ],
)
def test_an_invalid_job_is_refused_with_the_messages_of_kubernetes(spec: dict[str, Any], texts: list[str]):
    assert create(job(**spec)) == texts


def test_the_name_of_an_indexed_job_leaves_space_for_the_index_in_hostnames():
    obj = job(**INDEXED)
    obj["metadata"]["name"] = "j" * 62
    obj["spec"]["manualSelector"] = False
    texts = create(obj)
    assert texts == [
        f'metadata.name: Invalid value: "{"j" * 62}": will not able to create pod with invalid DNS label: {"j" * 62}-4'
    ]


@pytest.mark.parametrize(
    ("text", "intervals"),
    [("", []), ("1", [(1, 1)]), ("1,3-5,7", [(1, 1), (3, 5), (7, 7)])],
)
def test_index_lists(text: str, intervals: list[tuple[int, int]]):
    assert parse_indexes(text, 10) == intervals


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1-2-3", 'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts'),
        ("x", 'cannot convert string to integer for index: "x"'),
        ("10", 'too large index: "10"'),
        ("3,2", "non-increasing order, previous: 3, current: 2"),
        ("3-3", "non-increasing order, previous: 3, current: 3"),
    ],
)
def test_wrong_index_lists(text: str, why: str):
    with pytest.raises(ValueError, match=why):
        parse_indexes(text, 10)


# -- Job: updates -----------------------------------------------------------------------------------------------------


def test_mutable_fields_of_a_job():
    assert update(stored(), parallelism=7, suspend=True, activeDeadlineSeconds=9, backoffLimit=1) == []


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ({"completions": 2}, "spec.completions: Invalid value: 2: field is immutable"),
        ({"completionMode": "Indexed"}, 'spec.completionMode: Invalid value: "Indexed": field is immutable'),
        ({"managedBy": "a.io/b"}, 'spec.managedBy: Invalid value: "a.io/b": field is immutable'),
    ],
)
def test_immutable_fields_of_a_job(spec: dict[str, Any], start: str):
    assert update(stored(), **spec) == [start]


def test_completions_of_an_indexed_job_change_with_its_parallelism():
    old = stored(**INDEXED)
    assert update(old, completions=3, parallelism=3) == []
    refusal = "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    assert update(old, completions=3, parallelism=2) == [refusal]


def test_the_template_is_immutable():
    old = stored()
    new = copy.deepcopy(old["spec"]["template"])
    new["spec"]["containers"][0]["image"] = "j:2"
    texts = update(old, template=new)
    assert len(texts) == 1
    assert texts[0].startswith("spec.template: Invalid value: {")
    assert texts[0].endswith(": field is immutable")


def test_placement_and_resources_may_change_while_suspended_without_pods():
    old = stored(suspend=True)
    new = copy.deepcopy(old["spec"]["template"])
    new["spec"] |= {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    new["spec"]["affinity"] = {"nodeAffinity": {}}
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert update(old, template=new) == []
    started = {**old, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    assert update(started, template=new)[0].startswith("spec.template: Invalid value: ")
    resting = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}
    assert update({**old, "status": resting}, template=new) == []
    new["spec"]["containers"][0]["image"] = "j:2"
    assert update(old, template=new)[0].startswith("spec.template.spec: Invalid value: ")


# -- Job: status ------------------------------------------------------------------------------------------------------

START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
COMPLETE = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]
FAILED = [{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]


def report(status: dict[str, Any], before: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    old = {**stored(**spec), "status": before or {}}
    new = {**copy.deepcopy(old), "status": status}
    return [str(error) for error in JOB.validate_status(a_write(), new, old)]


@pytest.mark.parametrize(
    ("status", "before"),
    [
        ({"active": 1, "startTime": START}, {}),
        ({"succeeded": 1, "startTime": START, "completionTime": END, "conditions": COMPLETE}, {"startTime": START}),
        ({"failed": 1, "startTime": START, "conditions": FAILED}, {"startTime": START, "active": 1}),
    ],
)
def test_valid_status_updates_of_jobs(status: dict[str, Any], before: dict[str, Any]):
    assert report(status, before) == []


@pytest.mark.parametrize(
    ("status", "before", "text"),
    [
        ({"active": -1}, {}, "status.active: Invalid value: -1: must be greater than or equal to 0"),
        ({}, {"failed": 1}, "status.failed: Invalid value: 0: cannot decrease the failed counter"),
        ({}, {"succeeded": 1}, "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter"),
        (
            {"startTime": START, "conditions": []},
            {"startTime": START, "conditions": FAILED},
            "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
        ),
        (
            {"startTime": START, "conditions": COMPLETE},
            {"startTime": START},
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            {"startTime": END, "completionTime": START, "conditions": COMPLETE},
            {},
            f'status.completionTime: Invalid value: "{START}": must be equal to or after `startTime`',
        ),
        (
            {"startTime": START, "conditions": FAILED[1:]},
            {"startTime": START},
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            {"startTime": START, "completionTime": END, "conditions": COMPLETE[1:]},
            {"startTime": START},
            (
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true "
                "condition"
            ),
        ),
        (
            {"startTime": START, "active": 1, "conditions": FAILED},
            {"startTime": START},
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
        ),
        (
            {"startTime": END},
            {"startTime": START},
            f'status.startTime: Invalid value: "{END}": field is immutable for unsuspended job once set',
        ),
        (
            {"ready": 2, "active": 1},
            {},
            "status.ready: Invalid value: 2: cannot set more ready pods than active",
        ),
        (
            {"completedIndexes": "0"},
            {},
            (
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion '
                "mode"
            ),
        ),
        (
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            {},
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ),
    ],
)
def test_invalid_status_updates_of_jobs(status: dict[str, Any], before: dict[str, Any], text: str):
    assert text in report(status, before)


def test_an_index_does_not_both_succeed_and_fail():
    status = {"completedIndexes": "0-2", "failedIndexes": "2,4"}
    assert report(status, **INDEXED, backoffLimitPerIndex=1) == [
        'status.failedIndexes: Invalid value: "2,4": failedIndexes and completedIndexes overlap at index: 2'
    ]


# -- CronJob ----------------------------------------------------------------------------------------------------------


def cron(**spec: Any) -> dict[str, Any]:
    job_template = {"spec": {"template": template(restartPolicy="OnFailure")}}
    return {
        "metadata": {"name": "c", "namespace": "n", "generation": 1},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": job_template, **spec},
    }


def create_cron(obj: dict[str, Any]) -> list[str]:
    CRON.default(obj)
    CRON.prepare_create(a_write(), obj)
    return [str(error) for error in CRON.validate_create(a_write(), obj)]


def test_a_minimal_cron_job_reads_back_with_the_known_defaults():
    obj = cron()
    assert create_cron(obj) == []
    spec = obj["spec"]
    assert {key: spec[key] for key in spec.keys() - {"jobTemplate"}} == {
        "schedule": "0 0 * * *",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    assert spec["jobTemplate"]["metadata"] == {}
    assert spec["jobTemplate"]["spec"].keys() == {"template"}
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert obj["status"] == {}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"schedule": ""}, ["spec.schedule: Required value"]),
        ({"schedule": "x"}, ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]']),
        (
            {"schedule": "TZ=UTC 0 0 * * *"},
            [
                (
                    'spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field '
                    "instead"
                )
            ],
        ),
        (
            {"schedule": "TZ=0"},
            [
                (
                    'spec.schedule: Invalid value: "TZ=0": invalid schedule format: runtime error: slice bounds out of range '
                    "[3:-1]"
                ),
                'spec.schedule: Invalid value: "TZ=0": cannot use TZ or CRON_TZ in schedule, use timeZone field instead',
            ],
        ),
        ({"timeZone": "Europe/Berlin"}, []),
        ({"timeZone": "Mars/Base"}, ['spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base']),
        (
            {"timeZone": "europe/berlin"},
            ['spec.timeZone: Invalid value: "europe/berlin": unknown time zone europe/berlin'],
        ),
        (
            {"timeZone": "Local"},
            [
                (
                    'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '
                    "https://www.iana.org/time-zones"
                )
            ],
        ),
        ({"timeZone": ""}, ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string']),
        ({"timeZone": "../etc"}, ['spec.timeZone: Invalid value: "../etc": unknown time zone ../etc']),
        (
            {"concurrencyPolicy": "Sometimes"},
            [
                'spec.concurrencyPolicy: Unsupported value: "Sometimes": supported values: "Allow", "Forbid", "Replace"',
            ],
        ),
        (
            {"startingDeadlineSeconds": -1},
            [
                "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"jobTemplate": {"spec": {"template": template(), "selector": {}, "manualSelector": True}}},
            [
                "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
                'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
            ],
        ),
        (
            {"jobTemplate": {"spec": {"template": template(restartPolicy="Always")}}},
            [
                'spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
            ],
        ),
    ],
)
def test_cron_jobs(spec: dict[str, Any], texts: list[str]):
    assert create_cron(cron(**spec)) == texts


def test_long_names_of_cron_jobs_are_refused_on_create_only():
    obj = cron()
    obj["metadata"]["name"] = "c" * 53
    assert create_cron(obj) == [f'metadata.name: Invalid value: "{"c" * 53}": must be no more than 52 characters']
    assert CRON.validate_update(a_write(), obj, copy.deepcopy(obj)) == []


def test_a_stored_zone_in_a_schedule_is_tolerated():
    old = cron(schedule="TZ=UTC 0 0 * * *")
    CRON.default(old)
    assert CRON.validate_update(a_write(), copy.deepcopy(old), old) == []
    both = copy.deepcopy(old)
    both["spec"]["timeZone"] = "UTC"
    texts = [str(error) for error in CRON.validate_update(a_write(), both, old)]
    assert texts == [
        'spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule'
    ]
    assert CRON.warnings(old, old) == [
        (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    ]


def test_generation_of_a_cron_job_follows_its_spec():
    old = cron()
    assert not CRON.generation_changed(copy.deepcopy(old), old)
    assert CRON.generation_changed(cron(suspend=True), old)
