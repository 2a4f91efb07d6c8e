"""The converter, against a real webhook on loopback that answers correctly or not.

The messages are those a Kubernetes 1.36 server answered to the same response of its webhook.
"""

import pytest
from converter_support import WHAT, converting, instead, message_of, stored

from kapi.server.webhooks import conversion
from webhook_server import (
    V1,
    V1BETA1,
    Certificates,
    Reply,
    converted,
    honest,
    lying,
    lying_about,
)

QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


# -- the truth --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_request_is_a_review_of_the_first_common_version(certificates, version):
    async def test(webhook, convert):
        objects = [stored("a"), stored("b", port=2)]
        assert await convert(objects, V1) == [converted(one, V1) for one in objects]
        (call,) = webhook.calls
        assert call.target == "/convert?timeout=20s"
        review = call.review
        assert review.pop("request").pop("uid")
        assert (review.pop("kind"), review.pop("apiVersion")) == ("ConversionReview", f"apiextensions.k8s.io/{version}")
        assert review == {"response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}}
        assert (call.wanted, call.objects) == (V1, objects)

    converting(certificates, test, "v2", version, "v1", "v1beta1")


def test_every_review_has_a_uid_of_its_own(certificates):
    async def test(webhook, convert):
        for _ in range(3):
            await convert([stored()], V1)
        assert len({call.review["request"]["uid"] for call in webhook.calls}) == 3

    converting(certificates, test)


def test_only_objects_in_another_version_are_sent_and_order_is_kept(certificates):
    async def test(webhook, convert):
        objects = [stored("a"), stored("b", V1), stored("c"), stored("d", V1), stored("e")]
        result = await convert(objects, V1)
        assert [one["metadata"]["name"] for one in result] == ["a", "b", "c", "d", "e"]
        assert {one["apiVersion"] for one in result} == {V1}
        assert [call.names for call in webhook.calls] == [["a", "c", "e"]]

    converting(certificates, test)


def test_the_webhook_is_not_called_without_objects(certificates):
    async def test(webhook, convert):
        assert await convert([], V1) == []
        assert await convert([stored("a", V1)], V1) == [stored("a", V1)]
        kind_only = {"apiVersion": V1BETA1, "kind": "Listener"}
        assert await convert([kind_only], V1) == [{"apiVersion": V1, "kind": "Listener"}]
        assert webhook.calls == []

    converting(certificates, test)


def test_many_objects_are_converted_in_batches(certificates, monkeypatch):
    monkeypatch.setattr(conversion, "BATCH", 4)

    async def test(webhook, convert):
        objects = [stored(f"n{index}") for index in range(10)]
        assert await convert(objects, V1) == [converted(one, V1) for one in objects]
        assert [len(call.objects) for call in webhook.calls] == [4, 4, 2]

    converting(certificates, test)


def test_large_objects_are_converted_in_smaller_batches(certificates, monkeypatch):
    monkeypatch.setattr(conversion, "BATCH_BYTES", 3000)

    async def test(webhook, convert):
        objects = [stored(f"n{index}", host="h" * 1000) for index in range(4)] + [stored("huge", host="h" * 9000)]
        assert await convert(objects, V1) == [converted(one, V1) for one in objects]
        assert [len(call.objects) for call in webhook.calls] == [2, 2, 1]

    converting(certificates, test)


def test_a_failure_of_a_later_batch_fails_all(certificates, monkeypatch):
    monkeypatch.setattr(conversion, "BATCH", 1)

    def script(call):
        return honest(call) if call.names == ["a"] else Reply(b"", 500)

    assert "has prevented the request" in message_of(certificates, script, [stored("a"), stored("b")])


# -- what a webhook may change, and what it may not ---------------------------------------------------------------------


def test_only_labels_and_annotations_are_taken_from_the_webhook(certificates):
    def edit(obj):
        obj["metadata"] |= {"labels": {"new": "l"}, "annotations": {"new": "a"}}

    async def test(webhook, convert):
        given = stored(metadata={"labels": {"old": "l"}, "annotations": {"old": "a"}})
        (result,) = await convert([given], V1)
        assert result["metadata"]["labels"] == {"new": "l"}
        assert result["metadata"]["annotations"] == {"new": "a"}

    converting(certificates, test, script=lying_about(edit))


@pytest.mark.parametrize("gone", [lambda meta: meta.pop("labels"), lambda meta: meta.update(labels=None)])
def test_labels_a_webhook_drops_are_removed(certificates, gone):
    async def test(webhook, convert):
        (result,) = await convert([stored(metadata={"labels": {"old": "l"}})], V1)
        assert "labels" not in result["metadata"]

    converting(certificates, test, script=lying_about(lambda obj: gone(obj["metadata"])))


def test_all_other_metadata_is_restored(certificates):
    given = stored(metadata={"finalizers": ["a.dev/x"], "resourceVersion": "7", "generation": 3})

    def edit(obj):
        obj["metadata"] |= {
            "finalizers": [],
            "ownerReferences": [{"uid": "x"}],
            "resourceVersion": "1",
            "generation": "seven",
            "deletionTimestamp": "2020-01-01T00:00:00Z",
            "managedFields": None,
            "surprise": {},
        }

    async def test(webhook, convert):
        (result,) = await convert([given], V1)
        assert result["metadata"] == given["metadata"]

    converting(certificates, test, script=lying_about(edit))


def test_the_result_shares_nothing_with_what_was_given(certificates):
    async def test(webhook, convert):
        given = stored(metadata={"finalizers": ["a.dev/x"]})
        (result,) = await convert([given], V1)
        result["metadata"]["finalizers"].append("b.dev/y")
        result["metadata"]["name"] = "z"
        assert given["metadata"]["finalizers"] == ["a.dev/x"]
        assert given["metadata"]["name"] == "a"

    converting(certificates, test)


def test_invalid_labels_that_did_not_change_may_stay(certificates):
    async def test(webhook, convert):
        (result,) = await convert([stored(metadata={"labels": {"a b": "c d"}})], V1)
        assert result["metadata"]["labels"] == {"a b": "c d"}

    converting(certificates, test)


# -- lies about one object --------------------------------------------------------------------------------------------


def about(**fields):
    return lying_about(lambda obj: obj.update(fields))


def about_metadata(**fields):
    return lying_about(lambda obj: obj["metadata"].update(fields))


def without(key):
    return lying_about(lambda obj: obj.pop(key))


PLACE = "returned invalid object at index 0: "
IDENTITY = "returned invalid object: must have the same "
METADATA = "returned invalid metadata: "

OBJECTS = [
    pytest.param(instead(None), "unexpected end of JSON input", id="null"),
    pytest.param(
        instead("x"), "json: cannot unmarshal string into Go value of type map[string]interface {}", id="text"
    ),
    pytest.param(
        instead([]), "json: cannot unmarshal array into Go value of type map[string]interface {}", id="a-list"
    ),
    pytest.param(instead({}), "Object 'Kind' is missing in '{}'", id="empty"),
    pytest.param(instead({"kind": 3}), "Object 'Kind' is missing in '{...}'", id="kind-not-text"),
    pytest.param(
        instead({"apiVersion": "a/b/c", "kind": "Listener"}),
        "Object 'Kind' is missing in '{...}'",
        id="apiVersion-in-three-parts",
    ),
    pytest.param(
        without("apiVersion"), f"{WHAT} {PLACE}invalid groupVersion (expected {V1}, received )", id="no-apiVersion"
    ),
    pytest.param(
        about(apiVersion=3), f"{WHAT} {PLACE}invalid groupVersion (expected {V1}, received )", id="apiVersion-not-text"
    ),
    pytest.param(
        about(apiVersion=V1BETA1),
        f"{WHAT} {PLACE}invalid groupVersion (expected {V1}, received {V1BETA1})",
        id="other-version",
    ),
    pytest.param(
        about(apiVersion="v9"), f"{WHAT} {PLACE}invalid groupVersion (expected {V1}, received v9)", id="other-group"
    ),
    pytest.param(
        about(kind="Other"), f"{WHAT} {PLACE}invalid kind (expected Listener, received Other)", id="other-kind"
    ),
    pytest.param(about_metadata(name="z"), f"{WHAT} {IDENTITY}name: a != z", id="other-name"),
    pytest.param(about_metadata(name=3), f"{WHAT} {IDENTITY}name: a != ", id="name-not-text"),
    pytest.param(about_metadata(namespace="z"), f"{WHAT} {IDENTITY}namespace: default != z", id="other-namespace"),
    pytest.param(
        lying_about(lambda obj: obj["metadata"].pop("namespace")),
        f"{WHAT} {IDENTITY}namespace: default != ",
        id="no-namespace",
    ),
    pytest.param(about_metadata(uid="z"), f"{WHAT} {IDENTITY}UID: uid-of-a != z", id="other-uid"),
    pytest.param(without("metadata"), f"{WHAT} {IDENTITY}name: a != ", id="no-metadata"),
    pytest.param(about(metadata=None), f"{WHAT} {IDENTITY}name: a != ", id="metadata-null"),
    pytest.param(about(metadata="x"), f"{WHAT} {IDENTITY}name: a != ", id="metadata-text"),
    *(
        pytest.param(
            about_metadata(labels=value),
            f"{WHAT} {METADATA}invalid metadata.labels of type {name} in converted object",
            id=f"labels-{name}",
        )
        for value, name in ((["a"], "[]interface {}"), ("a", "string"), (3, "int64"), (3.5, "float64"), (True, "bool"))
    ),
    *(
        pytest.param(
            about_metadata(annotations={"a": value}),
            f"{WHAT} {METADATA}metadata.annotations[a] must be a string, but is {name} in converted object",
            id=f"annotation-{name}",
        )
        for value, name in ((1, "int64"), (None, "<nil>"), ({}, "map[string]interface {}"), ([], "[]interface {}"))
    ),
    pytest.param(
        about_metadata(labels={"a": "c d"}),
        f'{WHAT} {METADATA}metadata.labels: Invalid value: "c d": {LABEL}',
        id="label-invalid",
    ),
    pytest.param(
        about_metadata(labels={"a b": "c d"}),
        f'{WHAT} {METADATA}[metadata.labels: Invalid value: "a b": {QUALIFIED}, '
        f'metadata.labels: Invalid value: "c d": {LABEL}]',
        id="label-invalid-twice",
    ),
    pytest.param(
        about_metadata(annotations={"a b": "c d"}),
        f'{WHAT} {METADATA}metadata.annotation: Invalid value: "a b": {QUALIFIED}',
        id="annotation-invalid",
    ),
    pytest.param(
        about_metadata(annotations={"a": "c" * 300_000}),
        f"{WHAT} {METADATA}metadata.annotation: Too long: may not be more than 262144 bytes",
        id="annotation-too-long",
    ),
]


@pytest.mark.parametrize(("script", "expected"), OBJECTS)
def test_an_object_with_another_identity_is_refused(certificates, script, expected):
    assert message_of(certificates, script) == expected


def test_an_object_without_a_name_yet_needs_metadata_all_the_same(certificates):
    nameless = {"apiVersion": V1BETA1, "kind": "Listener", "metadata": {}}
    expected = f"{WHAT} {METADATA}missing metadata in converted object"
    assert message_of(certificates, without("metadata"), [nameless]) == expected
    expected = f"{WHAT} {METADATA}invalid metadata of type string in converted object"
    assert message_of(certificates, about(metadata="x"), [nameless]) == expected


SECOND = "returned invalid converted object at index 1: "


def changed_second(change):
    return lying(lambda review: change(review["response"]["convertedObjects"][1]))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (changed_second(lambda obj: obj.pop("kind") and None), f"{WHAT} {SECOND}Object 'Kind' is missing in "),
        (changed_second(lambda obj: obj.update(kind="X")), f"{WHAT} {SECOND}invalid kind (expected Listener, "),
        (changed_second(lambda obj: obj.update(apiVersion="x")), f"{WHAT} {SECOND}invalid groupVersion (expected "),
        (changed_second(lambda obj: obj["metadata"].update(uid="z")), f"{WHAT} {SECOND}must have the same UID: "),
        (
            changed_second(lambda obj: obj["metadata"].update(labels=1)),
            f"{WHAT} returned invalid metadata in object at index 1: invalid metadata.labels of type int64 in ",
        ),
        (
            lying(lambda review: review["response"]["convertedObjects"].reverse()),
            f"{WHAT} returned invalid converted object at index 0: must have the same name: a != b",
        ),
    ],
    ids=["no-kind", "kind", "version", "uid", "labels", "swapped"],
)
def test_the_error_names_the_index_of_the_wrong_object(certificates, script, expected):
    assert message_of(certificates, script, [stored("a"), stored("b")]).startswith(expected)
