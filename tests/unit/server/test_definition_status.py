"""Status patches of a CustomResourceDefinition; the expected answers are kube-apiserver's."""

import pytest

from api_client import JSON_PATCH, served, serving
from custom_kinds import WIDGET_CRD, background_work, defined, definition
from kapi.storage.memory import MemoryStorage
from virtual_time import run

NAMES = {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"}

PATCHES = {
    "a condition without type and status": (
        [{"op": "add", "path": "/status/conditions", "value": [{"message": "patched"}]}],
        {"conditions": [{"lastTransitionTime": None, "message": "patched", "status": "", "type": ""}]},
    ),
    "a condition of another type, and null": (
        [{"op": "add", "path": "/status/conditions", "value": [{"type": "A", "lastTransitionTime": None}, None]}],
        {
            "conditions": [
                {"lastTransitionTime": None, "status": "", "type": "A"},
                {"lastTransitionTime": None, "status": "", "type": ""},
            ]
        },
    ),
    "no conditions": ([{"op": "add", "path": "/status/conditions", "value": None}], {"conditions": None}),
    "no status": (
        [{"op": "remove", "path": "/status"}],
        {"conditions": None, "acceptedNames": {"kind": "", "plural": ""}},
    ),
    "half of the names": (
        [{"op": "add", "path": "/status/acceptedNames", "value": {"plural": "others"}}],
        {"acceptedNames": {"kind": "", "plural": "others"}},
    ),
    "no names": (
        [{"op": "add", "path": "/status/acceptedNames", "value": None}],
        {"acceptedNames": {"kind": "", "plural": ""}},
    ),
}


@pytest.mark.parametrize("name", PATCHES)
@served
async def test_a_status_patch_is_answered_as_kube_apiserver_does(api, name):
    patch, expected = PATCHES[name]
    before = (await defined(api, definition()))["status"]
    answer = await api.patch(f"{WIDGET_CRD}/status", patch, JSON_PATCH)
    assert answer.status == 200, answer
    assert answer["status"] == {**before, **expected}
    assert api.catalog.hub.invalid.check() is None


@pytest.mark.parametrize("name", PATCHES)
def test_a_server_starts_on_a_definition_whose_status_was_patched(name):
    async def main():
        storage = MemoryStorage()
        async with serving(storage) as api:
            await defined(api, definition())
            await api.patch(f"{WIDGET_CRD}/status", PATCHES[name][0], JSON_PATCH)
        async with serving(storage) as api:
            assert api.catalog.hub.invalid.check() is None
            await background_work()
            assert (await api.get(WIDGET_CRD))["status"]["acceptedNames"] == NAMES

    run(main())
