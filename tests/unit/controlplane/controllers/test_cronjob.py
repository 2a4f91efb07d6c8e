"""The CronJob controller: Jobs on a schedule, concurrency policies, deadlines, history, status, and restarts."""

import asyncio
import datetime as dt

import pytest

from controller_api import running_controllers, with_controllers
from kapi.api.meta import format_time
from kapi.controlplane.controllers.cronjob import controller as cronjob
from kapi.controlplane.controllers.cronjob.controller import add_cronjob_controller
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from kapi.controlplane.controllers.namespace.controller import add_namespace_controller
from kapi.storage.interface import Draft, Put
from kapi.storage.memory import MemoryStorage
from virtual_time import EPOCH, run

CRONJOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MINUTES = int(EPOCH.timestamp()) // 60


def job_spec():
    containers = [{"name": "c", "image": "i"}]
    return {"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}


def cron(schedule="*/10 * * * *", name="c", template=None, **spec):
    template = {"spec": job_spec()} | (template or {})
    return {"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}


def started(api, name="c", namespace="default"):
    """The minutes after the beginning of the starts that have a Job."""
    owned = (one for space, one in api.there("jobs.batch") if space == namespace)
    return sorted(int(one.removeprefix(f"{name}-")) - MINUTES for one in owned if one.startswith(f"{name}-"))


def named(minute, name="c"):
    return f"{name}-{MINUTES + minute}"


def status(api, name="c"):
    return api.find("cronjobs.batch", "default", name).get("status", {})


def active(api, name="c"):
    return [ref["name"] for ref in status(api, name).get("active", [])]


def at(minutes):
    return format_time(EPOCH + dt.timedelta(minutes=minutes))


def events(api, name="c"):
    """The (reason, message) of the Events about a CronJob, oldest first; repetitions count once."""
    stored = api.catalog.store("events")
    found = [one for one in map(stored.decode, stored.cache.items()) if one["involvedObject"]["name"] == name]
    return [(one["reason"], one["message"]) for one in sorted(found, key=lambda one: one["metadata"]["name"])]


def reasons(api, name="c"):
    return [reason for reason, _ in events(api, name)]


async def finish(api, name, minute, kind="Complete"):
    """Report that a Job has ended, as the Job controller does."""
    before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    conditions = [{"type": one, "status": "True", "lastTransitionTime": at(minute)} for one in (before, kind)]
    body = {"startTime": at(minute), "conditions": conditions, "uncountedTerminatedPods": {}}
    done = {"completionTime": at(minute)} if kind == "Complete" else {}
    answer = await api.patch(f"{JOBS}/{name}/status", {"status": body | done})
    assert answer.status == 200, answer


async def change(api, spec, name="c"):
    answer = await api.patch(f"{CRONJOBS}/{name}", {"spec": spec})
    assert answer.status == 200, answer


async def until(api, minute):
    """Let time pass until shortly after a minute."""
    left = minute * 60 + 1 - (api.clock.now() - EPOCH).total_seconds()
    await api.run_until_idle(left)


# -- the schedule -----------------------------------------------------------------------------------------------------


@with_controllers(add_cronjob_controller)
async def test_a_job_is_created_at_each_time_of_the_schedule(api):
    await api.made(CRONJOBS, cron())
    await until(api, 9)
    assert started(api) == []
    await until(api, 35)
    assert started(api) == [10, 20, 30]
    assert api.find("jobs.batch", "default", named(20))["metadata"]["creationTimestamp"] == at(20)
    assert status(api)["lastScheduleTime"] == at(30)
    assert active(api) == [named(10), named(20), named(30)]
    assert events(api)[0] == ("SuccessfulCreate", f"Created job {named(10)}")


@with_controllers(add_cronjob_controller)
async def test_a_job_is_made_of_the_template(api):
    given = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/ignored"]}
    template = {"metadata": given, "spec": job_spec() | {"backoffLimit": 3}}
    made = await api.made(CRONJOBS, cron(template=template, timeZone="Asia/Tokyo"))
    await until(api, 10)
    job = api.find("jobs.batch", "default", named(10))
    metadata = job["metadata"]
    assert metadata["labels"] == {"a": "b"}
    scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert metadata["annotations"] == {"c": "d", scheduled: "2026-01-01T09:10:00+09:00"}
    assert "finalizers" not in metadata
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": "c",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert job["spec"]["backoffLimit"] == 3
    (ref,) = status(api)["active"]
    assert ref.pop("resourceVersion").isdigit()
    assert ref == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "default",
        "name": named(10),
        "uid": metadata["uid"],
    }


@with_controllers(add_cronjob_controller)
async def test_times_are_utc_unless_a_time_zone_is_given(api):
    await api.made(CRONJOBS, cron("0 9 * * *", "utc"))
    await api.made(CRONJOBS, cron("0 9 * * *", "tokyo", timeZone="Asia/Tokyo"))
    await api.made(CRONJOBS, cron("0 9 * * *", "berlin", timeZone="Europe/Berlin"))
    await until(api, 24 * 60 - 1)
    assert [started(api, name) for name in ("utc", "tokyo", "berlin")] == [[9 * 60], [], [8 * 60]]
    await until(api, 24 * 60)
    assert started(api, "tokyo") == [24 * 60]
    scheduled = api.find("jobs.batch", "default", named(9 * 60, "utc"))["metadata"]["annotations"]
    assert list(scheduled.values()) == ["2026-01-01T09:00:00Z"]


@with_controllers(add_cronjob_controller)
async def test_intervals_begin_with_the_creation(api):
    await api.run_until_idle(300)
    made = await api.made(CRONJOBS, cron("@every 7m"))
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T00:05:01Z"
    await until(api, 27)
    assert started(api) == [12, 19, 26]
    assert status(api)["lastScheduleTime"] == "2026-01-01T00:26:01Z"


@with_controllers(add_cronjob_controller)
async def test_a_suspended_cron_job_starts_nothing_until_it_is_resumed(api):
    await api.made(CRONJOBS, cron(suspend=True))
    await until(api, 34)
    assert started(api) == []
    await change(api, {"suspend": False})
    await until(api, 40)
    # The last of the times that were missed, and then as usual.
    assert started(api) == [30, 40]
    await change(api, {"suspend": True})
    await until(api, 100)
    assert started(api) == [30, 40]


@with_controllers(add_cronjob_controller)
async def test_a_changed_schedule_does_not_make_up_for_times_before_the_change(api):
    await api.made(CRONJOBS, cron("0 12 * * *"))
    await until(api, 30)
    await change(api, {"schedule": "*/20 * * * *"})
    await until(api, 39)
    assert started(api) == []
    await until(api, 61)
    assert started(api) == [40, 60]


@with_controllers(add_cronjob_controller)
async def test_a_changed_time_zone_changes_the_next_start(api):
    await api.made(CRONJOBS, cron("0 9 * * *"))
    await until(api, 30)
    await change(api, {"timeZone": "Europe/Berlin"})
    await until(api, 8 * 60)
    assert started(api) == [8 * 60]


@with_controllers(add_cronjob_controller)
async def test_finished_jobs_are_seen_though_the_schedule_changed_at_the_same_time(api):
    await api.made(CRONJOBS, cron())
    await until(api, 10)
    await asyncio.gather(finish(api, named(10), 11), change(api, {"schedule": "@yearly"}))
    await until(api, 12)
    assert active(api) == []


# -- concurrency policies ---------------------------------------------------------------------------------------------


@with_controllers(add_cronjob_controller)
async def test_forbid_waits_for_the_active_job(api):
    await api.made(CRONJOBS, cron(concurrencyPolicy="Forbid"))
    await until(api, 35)
    assert started(api) == [10]
    note = "Not starting job because prior execution is running and concurrency policy is Forbid"
    assert ("JobAlreadyActive", note) in events(api)
    await finish(api, named(10), 35)
    await until(api, 39)
    # The start at 30 is due as soon as nothing is active.
    assert started(api) == [10, 30]
    assert active(api) == [named(30)]


@with_controllers(add_cronjob_controller)
async def test_replace_deletes_the_active_job(api):
    await api.made(CRONJOBS, cron(concurrencyPolicy="Replace"))
    await until(api, 35)
    assert started(api) == [30]
    assert active(api) == [named(30)]
    assert ("SuccessfulDelete", f"Deleted job {named(20)}") in events(api)
    assert "MissingJob" not in reasons(api)


@with_controllers(add_cronjob_controller)
async def test_replace_leaves_another_job_of_the_same_name_alone(api):
    await api.made(CRONJOBS, cron(concurrencyPolicy="Replace"))
    other = await api.made(JOBS, {"metadata": {"name": "other"}, "spec": job_spec()})
    refs = [
        {"kind": "Job", "apiVersion": "batch/v1", "namespace": "default", "name": "other", "uid": "another"},
        {"kind": "Job", "namespace": "kube-system", "name": "other", "uid": other["metadata"]["uid"]},
        {},
    ]
    answer = await api.patch(f"{CRONJOBS}/c/status", {"status": {"active": refs}})
    assert answer.status == 200, answer
    await until(api, 10)
    assert api.find("jobs.batch", "default", "other") is not None
    assert active(api) == [named(10)]


@with_controllers(add_cronjob_controller)
async def test_a_cron_job_has_a_limit_of_active_jobs(api, monkeypatch):
    monkeypatch.setattr(cronjob, "MOST_ACTIVE", 2)
    await api.made(CRONJOBS, cron())
    await until(api, 45)
    assert started(api) == [10, 20]
    assert ("TooManyActiveJobs", "Not starting job because 2 jobs are active") in events(api)
    await finish(api, named(10), 45)
    await until(api, 46)
    assert started(api) == [10, 20, 40]


# -- missed starts and deadlines --------------------------------------------------------------------------------------


def test_of_missed_starts_only_the_last_is_made_up_for():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            await api.made(CRONJOBS, cron())
            await until(api, 15)
        async with running_controllers(storage=storage) as api:
            await until(api, 95)
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            await until(api, 96)
            assert started(api) == [10, 90]
            await until(api, 105)
            assert started(api) == [10, 90, 100]
            assert "TooManyMissedTimes" not in reasons(api)

    run(main())


def test_a_start_after_its_deadline_is_left_out():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            await api.made(CRONJOBS, cron(name="late", startingDeadlineSeconds=240))
            await api.made(CRONJOBS, cron(name="punctual", startingDeadlineSeconds=360))
            await until(api, 15)
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            await until(api, 16)
            assert [started(api, name) for name in ("late", "punctual")] == [[], [10]]
            await until(api, 20)
            assert [started(api, name) for name in ("late", "punctual")] == [[20], [10, 20]]

    run(main())


@with_controllers(add_cronjob_controller)
async def test_many_missed_starts_are_reported_and_only_the_last_is_made_up_for(api):
    await api.made(CRONJOBS, cron("* * * * *", suspend=True))
    await api.patch(f"{CRONJOBS}/c/status", {"status": {"lastScheduleTime": "2023-01-01T00:00:00Z"}})
    await until(api, 5)
    await change(api, {"suspend": False})
    await api.run_until_idle(1)
    assert started(api) == [5]
    note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    assert events(api) == [("TooManyMissedTimes", note), ("SuccessfulCreate", f"Created job {named(5)}")]


@with_controllers(add_cronjob_controller)
async def test_a_schedule_without_any_time_is_reported_and_left_alone(api):
    await api.made(CRONJOBS, cron("0 0 31 2 *"))
    await api.made(CRONJOBS, cron(", * * * *", "empty"))
    await api.made(CRONJOBS, cron(name="fine"))
    await until(api, 10)
    why = "time difference between two schedules is less than 1 second"
    assert events(api) == [("InvalidSchedule", f"invalid schedule: 0 0 31 2 * : {why}")]
    assert reasons(api, "empty") == ["InvalidSchedule"]
    assert started(api, "fine") == [10]


# -- the end of Jobs --------------------------------------------------------------------------------------------------


@with_controllers(add_cronjob_controller)
async def test_finished_jobs_are_not_active_and_the_last_success_is_recorded(api):
    await api.made(CRONJOBS, cron())
    await until(api, 25)
    await finish(api, named(10), 12)
    await finish(api, named(20), 24, "Failed")
    await until(api, 26)
    assert active(api) == []
    assert status(api)["lastSuccessfulTime"] == at(12)
    assert ("SawCompletedJob", f"Saw completed job: {named(10)}, condition: Complete") in events(api)
    assert ("SawCompletedJob", f"Saw completed job: {named(20)}, condition: Failed") in events(api)
    await until(api, 45)
    await finish(api, named(40), 44)
    await finish(api, named(30), 43)
    await until(api, 46)
    assert status(api)["lastSuccessfulTime"] == at(44)


@with_controllers(add_cronjob_controller)
async def test_the_oldest_finished_jobs_are_deleted_over_the_history_limits(api):
    await api.made(CRONJOBS, cron("* * * * *", successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
    for minute in range(1, 9):
        await until(api, minute)
        await finish(api, named(minute), minute, "Failed" if minute in {2, 3} else "Complete")
    await api.run_until_idle(1)
    assert started(api) == [3, 7, 8]
    assert ("SuccessfulDelete", f"Deleted job {named(1)}") in events(api)


@with_controllers(add_cronjob_controller)
async def test_a_limit_of_zero_keeps_no_finished_job(api):
    await api.made(CRONJOBS, cron(successfulJobsHistoryLimit=0))
    await until(api, 10)
    await finish(api, named(10), 11)
    await until(api, 12)
    assert started(api) == []
    assert active(api) == []
    assert status(api)["lastSuccessfulTime"] == at(11)


@with_controllers(add_cronjob_controller)
async def test_an_active_job_that_was_deleted_is_missing(api):
    await api.made(CRONJOBS, cron())
    await until(api, 10)
    await api.delete(f"{JOBS}/{named(10)}", propagationPolicy="Background")
    await until(api, 11)
    assert active(api) == []
    assert ("MissingJob", f"Active job went missing: {named(10)}") in events(api)
    # It is not created a second time.
    await until(api, 19)
    assert started(api) == []


@with_controllers(add_cronjob_controller)
async def test_a_running_job_of_another_origin_is_reported(api):
    made = await api.made(CRONJOBS, cron())
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": made["metadata"]["uid"]}
    for name, controls in (("manual", True), ("dependent", False)):
        refs = [{**owner, "controller": controls}]
        await api.made(JOBS, {"metadata": {"name": name, "ownerReferences": refs}, "spec": job_spec()})
    await api.run_until_idle(10)
    note = "Saw a job that the controller did not create or forgot: manual"
    assert events(api) == [("UnexpectedJob", note)]
    assert active(api) == []


@with_controllers(add_cronjob_controller)
async def test_a_job_that_gets_a_cron_job_as_its_controller_is_reported(api):
    made = await api.made(CRONJOBS, cron())
    await api.made(JOBS, {"metadata": {"name": "adopted"}, "spec": job_spec()})
    await api.run_until_idle(10)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": made["metadata"]["uid"]}
    patch = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    assert (await api.patch(f"{JOBS}/adopted", patch)).status == 200
    await api.run_until_idle(10)
    assert reasons(api) == ["UnexpectedJob"]


@with_controllers(add_cronjob_controller, add_garbage_collector)
async def test_the_jobs_of_a_deleted_cron_job_are_left_to_the_garbage_collector(api):
    await api.made(CRONJOBS, cron())
    await until(api, 15)
    assert started(api) == [10]
    await api.delete(f"{CRONJOBS}/c")
    await until(api, 60)
    assert started(api) == []


@with_controllers(add_cronjob_controller)
async def test_a_cron_job_that_is_being_deleted_starts_nothing(api):
    obj = cron()
    obj["metadata"]["finalizers"] = ["example.com/wait"]
    await api.made(CRONJOBS, obj)
    await until(api, 15)
    await api.delete(f"{CRONJOBS}/c")
    await finish(api, named(10), 15)
    await until(api, 60)
    assert started(api) == [10]
    assert active(api) == []


# -- restarts and failures --------------------------------------------------------------------------------------------


def test_a_restart_at_any_moment_creates_no_second_job():
    storage = MemoryStorage()

    async def main():
        for _ in range(4):
            async with running_controllers(add_cronjob_controller, storage=storage) as api:
                if not api.there("cronjobs.batch"):
                    await api.made(CRONJOBS, cron())
                await api.run_until_idle(400)
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            assert started(api) == [10, 20]
            assert active(api) == [named(10), named(20)]

    run(main())


def test_a_job_whose_start_was_not_recorded_is_taken_as_started():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            await api.made(CRONJOBS, cron())
            await until(api, 10)
        async with running_controllers(storage=storage) as api:
            # As after a kill between the creation of the Job and the write of the status.
            await api.patch(f"{CRONJOBS}/c/status", {"status": {"active": None, "lastScheduleTime": None}})
            uid = api.find("jobs.batch", "default", named(10))["metadata"]["uid"]
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            await api.run_until_idle(1)
            assert [ref["uid"] for ref in status(api)["active"]] == [uid]
            assert status(api)["lastScheduleTime"] == at(10)
            assert reasons(api).count("SuccessfulCreate") == 1

    run(main())


@with_controllers(add_cronjob_controller)
async def test_a_foreign_job_of_that_name_costs_one_start(api):
    await api.made(CRONJOBS, cron())
    await api.made(JOBS, {"metadata": {"name": named(10)}, "spec": job_spec()})
    await until(api, 25)
    assert active(api) == [named(20)]
    assert "ownerReferences" not in api.find("jobs.batch", "default", named(10))["metadata"]


@with_controllers(add_cronjob_controller)
async def test_a_refused_job_is_reported_and_tried_again(api):
    await api.made(CRONJOBS, cron(template={"metadata": {"labels": {"a": "b" * 64}}}))
    await api.made(CRONJOBS, cron(name="fine"))
    await until(api, 12)
    reason, note = events(api)[0]
    assert reason == "FailedCreate"
    assert note.startswith(f'Error creating job: Job.batch "{named(10)}" is invalid: metadata.labels: Invalid value')
    assert started(api, "fine") == [10]
    # Repaired, it is started without waiting for the next time.
    await change(api, {"jobTemplate": {"metadata": {"labels": {"a": "b"}}}})
    await until(api, 13)
    assert started(api) == [10]


@with_controllers(add_cronjob_controller, add_namespace_controller)
async def test_a_terminating_namespace_is_no_failure(api):
    await api.made("/api/v1/namespaces", {"metadata": {"name": "ends"}})
    obj = cron("* * * * *")
    obj["metadata"]["finalizers"] = ["example.com/wait"]
    await api.made("/apis/batch/v1/namespaces/ends/cronjobs", obj)
    await until(api, 1)
    assert started(api, namespace="ends") == [1]
    assert (await api.delete("/api/v1/namespaces/ends")).status == 200
    await until(api, 30)
    assert started(api, namespace="ends") in ([], [1])
    failures = api.registry.get_sample_value(
        "controller_runtime_reconcile_errors_total", {"controller": "cronjob-controller"}
    )
    assert not failures


async def store(api, old, new):
    """Change the stored bytes of a CronJob, past validation: as an older version of the server would have stored it."""
    stored = api.catalog.store("cronjobs.batch")
    item = stored.find("default", "c")
    head, field, rest = (stored.head + item.body).partition(b'"resourceVersion":"')
    rest = rest[rest.index(b'"') :]
    assert rest.count(old) == 1
    await api.storage.commit([Put(item.key, Draft(head + field, rest.replace(old, new)), item.revision)])


@pytest.mark.parametrize(
    ("schedule", "zone", "reason", "note"),
    [
        ("61 * * * *", "UTC", "UnparseableSchedule", 'unparseable schedule: "61 * * * *" : end of range (61) above'),
        ("TZ=UTC", "UTC", "UnparseableSchedule", 'unparseable schedule: "TZ=UTC" : invalid schedule format: '),
        ("* * * * *", "Mars/Base", "UnknownTimeZone", 'invalid timeZone: "Mars/Base": unknown time zone Mars/Base'),
        ("TZ=Asia/Tokyo 10 9 * * *", "UTC", "UnsupportedSchedule", 'CRON_TZ or TZ used in schedule "TZ=Asia/Tokyo'),
    ],
)
def test_what_validation_refuses_today_is_reported(schedule, zone, reason, note):
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            await api.made(CRONJOBS, cron("@yearly", timeZone="Asia/Tokyo"))
            await api.made(CRONJOBS, cron(name="fine"))
            await store(api, b'"schedule":"@yearly"', f'"schedule":"{schedule}"'.encode())
            await store(api, b'"timeZone":"Asia/Tokyo"', f'"timeZone":"{zone}"'.encode())
        async with running_controllers(add_cronjob_controller, storage=storage) as api:
            await until(api, 10)
            assert dict(events(api))[reason].startswith(note)
            assert started(api) == ([10] if reason == "UnsupportedSchedule" else [])
            assert started(api, "fine") == [10]

    run(main())


@with_controllers(add_cronjob_controller)
async def test_a_schedule_that_becomes_unreadable_is_reported(api):
    await api.made(CRONJOBS, cron("@yearly"))
    await api.run_until_idle(1)
    await store(api, b'"schedule":"@yearly"', b'"schedule":"x"')
    await until(api, 5)
    assert events(api) == [("UnParseableCronJobSchedule", "unparseable schedule for cronjob: x")]


@pytest.mark.parametrize(
    ("last", "minutes"),
    # Year 1 is Go's zero time: it is not stored, and the CronJob counts as new.
    [("0001-01-01T00:00:00Z", [10]), ("1850-01-01T00:00:00Z", [0, 10]), ("9999-12-31T23:59:59Z", [])],
)
def test_any_time_in_the_status_is_survived(last, minutes):
    @with_controllers(add_cronjob_controller)
    async def check(api):
        for name, schedule, zone in (("c", "*/10 * * * *", "America/New_York"), ("every", "@every 10m", None)):
            await api.made(CRONJOBS, cron(schedule, name, suspend=True, timeZone=zone))
            answer = await api.patch(f"{CRONJOBS}/{name}/status", {"status": {"lastScheduleTime": last}})
            assert answer.status == 200, answer
            await change(api, {"suspend": False, "startingDeadlineSeconds": 2**62}, name)
        await until(api, 15)
        assert started(api) == started(api, "every") == minutes

    check()
