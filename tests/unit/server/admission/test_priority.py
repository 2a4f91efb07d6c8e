"""Priority: updates of Pods, and the default class. More is in `admission_programs`."""

from api_client import PODS, pod, served

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_class(name, value, **fields):
    return {"metadata": {"name": name}, "value": value, **fields}


@served
async def test_an_update_without_a_priority_keeps_it(api):
    await api.made(CLASSES, priority_class("high", 7, preemptionPolicy="Never"))
    made = await api.made(PODS, pod(priorityClassName="high"))
    for field in ("priority", "preemptionPolicy"):
        del made["spec"][field]
    made["metadata"]["labels"] = {"a": "b"}
    answer = await api.put(f"{PODS}/p", made)
    assert (answer.status, answer["spec"]["priority"], answer["spec"]["preemptionPolicy"]) == (200, 7, "Never")


@served
async def test_the_default_class_is_the_one_of_now(api):
    await api.made(CLASSES, priority_class("first", 1, globalDefault=True))
    assert (await api.made(PODS, pod("a")))["spec"]["priorityClassName"] == "first"
    await api.delete(f"{CLASSES}/first")
    await api.made(CLASSES, priority_class("second", 2, globalDefault=True))
    made = await api.made(PODS, pod("b"))
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("second", 2)


@served
async def test_a_default_class_can_be_updated_and_no_other_becomes_default(api):
    await api.made(CLASSES, priority_class("first", 1, globalDefault=True))
    await api.made(CLASSES, priority_class("second", 2))
    assert (await api.patch(f"{CLASSES}/first", {"description": "d"})).status == 200
    refused = await api.patch(f"{CLASSES}/second", {"globalDefault": True})
    assert refused.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
