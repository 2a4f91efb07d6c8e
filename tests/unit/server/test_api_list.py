"""Reading through the whole server: get, list, paging over a moving store, selectors, and reads at a revision."""

import asyncio
import base64
import json

import pytest

from api_client import CM, DEPLOY, NS, PODS, SVC, cm, deployment, pod, served
from kapi.server.handlers import read

TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


def _token(**fields):
    raw = json.dumps({"v": "meta.k8s.io/v1", **fields}).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _fields(token):
    return json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))


async def _many(api, count, **fields):
    return [await api.made(CM, cm(f"c{index:02}", **fields)) for index in range(count)]


# -- get --------------------------------------------------------------------------------------------------------------


@served
async def test_missing_object_is_not_found(api):
    answer = await api.get(f"{CM}/none")
    assert answer.error == (404, "NotFound", 'configmaps "none" not found')
    assert answer["details"] == {"name": "none", "kind": "configmaps"}
    answer = await api.get(f"{DEPLOY}/none")
    assert answer.message == 'deployments.apps "none" not found'
    assert answer["details"] == {"name": "none", "group": "apps", "kind": "deployments"}


@served
async def test_get_in_a_missing_namespace_is_not_found(api):
    assert (await api.get(f"{NS}/none/configmaps/a")).message == 'configmaps "a" not found'


@served
async def test_get_not_older_than_a_revision(api):
    made = await api.made(CM, cm("a"))
    for version in ("0", made["metadata"]["resourceVersion"], "1"):
        assert (await api.get(f"{CM}/a", resourceVersion=version)).json == made


@pytest.mark.parametrize("path", [CM, f"{CM}/a"])
@pytest.mark.parametrize(
    "query", [{}, {"resourceVersionMatch": "Exact"}, {"resourceVersionMatch": "NotOlderThan"}, {"limit": 1}]
)
@served
async def test_future_revision_is_a_timeout(api, path, query):
    await api.made(CM, cm("a"))
    answer = await api.get(path, resourceVersion="99999999", **query)
    message = f"Timeout: Too large resource version: 99999999, current: {api.revision}"
    assert answer.error == (504, "Timeout", message)
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    assert answer["details"] == {"causes": [cause], "retryAfterSeconds": 1}
    assert answer.header("Retry-After") == "1"


@served
async def test_read_waits_for_a_revision_that_is_committed_in_time(api):
    import asyncio

    await api.made(CM, cm("a"))
    wanted = str(api.revision + 1)
    reading = asyncio.ensure_future(api.get(CM, resourceVersion=wanted))
    await asyncio.sleep(1)
    await api.made(CM, cm("b"))
    assert (await reading).names == ["a", "b"]


@served
async def test_resource_version_of_a_get_must_be_a_number(api):
    await api.made(CM, cm("a"))
    answer = await api.get(f"{CM}/a", resourceVersion="abc")
    why = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    assert answer.error == (500, "", why)


@served
async def test_watch_and_selectors_on_a_named_get_are_ignored(api):
    made = await api.made(CM, cm("a"))
    answer = await api.get(f"{CM}/a", watch="1", labelSelector="x=y", fieldSelector="metadata.name=b")
    assert answer.json == made


# -- list -------------------------------------------------------------------------------------------------------------


@served
async def test_empty_list(api):
    answer = await api.get(CM)
    assert answer.status == 200
    assert answer.json == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(api.revision)},
        "items": [],
    }
    assert (await api.get(f"{NS}/none/configmaps"))["items"] == []


@served
async def test_items_carry_no_kind(api):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    expected = {key: value for key, value in made.items() if key not in ("kind", "apiVersion")}
    assert (await api.get(CM))["items"] == [expected]


@served
async def test_order_is_that_of_namespace_and_name(api):
    for path, name in [
        (CM, "cm-2"),
        (CM, "cm-10"),
        (f"{NS}/kube-system/configmaps", "a"),
        (CM, "z"),
        (CM, "a.b"),
        (CM, "a-b"),
    ]:
        await api.made(path, cm(name))
    assert (await api.get(CM)).names == ["a-b", "a.b", "cm-10", "cm-2", "z"]
    answer = await api.get("/api/v1/configmaps")
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in answer["items"]]
    assert found[-2:] == [("default", "z"), ("kube-system", "a")]


@served
async def test_namespaces_with_a_common_prefix_are_listed_separately(api):
    await api.made(NS, {"metadata": {"name": "default-2"}})
    await api.made(f"{NS}/default-2/configmaps", cm("x"))
    await api.made(CM, cm("y"))
    assert (await api.get(CM)).names == ["y"]
    assert (await api.get("/api/v1/configmaps")).names == ["x", "y"]


@served
async def test_resource_version_of_a_list_is_that_of_the_store(api):
    await api.made(CM, cm("a"))
    await api.made(PODS, pod("p"))
    assert (await api.get(CM)).version == str(api.revision)


# -- paging -----------------------------------------------------------------------------------------------------------


async def _pages(api, path, *, between=None, **query):
    pages = [await api.get(path, **query)]
    while token := pages[-1].metadata.get("continue"):
        if between is not None:
            await between(len(pages))
        pages.append(await api.get(path, continue_=token, **query))
        assert pages[-1].status == 200, pages[-1]
    return pages


@served
async def test_pages_cover_everything_once(api):
    await _many(api, 7)
    pages = await _pages(api, CM, limit=3)
    assert [page.names for page in pages] == [
        ["c00", "c01", "c02"],
        ["c03", "c04", "c05"],
        ["c06"],
    ]
    assert [page.metadata.get("remainingItemCount") for page in pages] == [4, 1, None]
    assert len({page.version for page in pages}) == 1


@pytest.mark.parametrize("count", [3, 6])
@served
async def test_page_that_is_exactly_full_is_the_last(api, count):
    await _many(api, count)
    pages = await _pages(api, CM, limit=3)
    assert [len(page["items"]) for page in pages] == [3] * (count // 3)
    assert "continue" not in pages[-1].metadata
    assert "remainingItemCount" not in pages[-1].metadata


@served
async def test_pages_show_one_revision_during_writes(api):
    made = await _many(api, 9)

    async def meddle(page):
        await api.made(CM, cm(f"c00-{page}"))
        await api.made(CM, cm(f"z{page}"))
        await api.delete(f"{CM}/c08")
        await api.patch(f"{CM}/c07", {"data": {"changed": str(page)}})
        await api.delete(f"{CM}/c00")

    pages = await _pages(api, CM, between=meddle, limit=2)
    items = [item for page in pages for item in page["items"]]
    assert [item["metadata"]["resourceVersion"] for item in items] == [
        obj["metadata"]["resourceVersion"] for obj in made
    ]
    assert len({page.version for page in pages}) == 1
    assert [page.metadata.get("remainingItemCount") for page in pages] == [7, 5, 3, 1, None]


@served
async def test_pages_across_namespaces(api):
    await _many(api, 3)
    for index in range(3):
        await api.made(f"{NS}/kube-system/configmaps", cm(f"k{index}"))

    async def meddle(page):
        await api.made(CM, cm(f"late{page}"))

    pages = await _pages(api, "/api/v1/configmaps", between=meddle, limit=2)
    assert [name for page in pages for name in page.names] == ["c00", "c01", "c02", "k0", "k1", "k2"]


@served
async def test_pages_with_selectors_are_filled_up(api):
    for index in range(10):
        await api.made(CM, cm(f"c{index}", metadata={"labels": {"odd": str(index % 2)}}))

    async def meddle(page):
        await api.made(CM, cm(f"d{page}", metadata={"labels": {"odd": "1"}}))

    pages = await _pages(api, CM, between=meddle, limit=2, labelSelector="odd=1")
    assert [page.names for page in pages] == [["c1", "c3"], ["c5", "c7"], ["c9"]]
    assert all("remainingItemCount" not in page.metadata for page in pages)


@served
async def test_continue_token_holds_the_next_key(api):
    await _many(api, 3)
    page = await api.get(CM, limit=2)
    fields = _fields(page.metadata["continue"])
    assert fields["v"] == "meta.k8s.io/v1"
    assert fields["rv"] == int(page.version)
    assert fields["start"].lstrip("/") == "c01\0"


@served
async def test_continue_without_a_limit_returns_the_rest(api):
    await _many(api, 5)
    first = await api.get(CM, limit=2)
    await api.made(CM, cm("late"))
    assert (await api.get(CM, continue_=first.metadata["continue"])).names == ["c02", "c03", "c04"]


@pytest.mark.parametrize("limit", ["0", "-1"])
@served
async def test_no_limit(api, limit):
    await _many(api, 3)
    answer = await api.get(CM, limit=limit)
    assert (len(answer["items"]), answer.metadata.keys()) == (3, {"resourceVersion"})


@served
async def test_limit_is_ignored_with_resource_version_zero(api):
    await _many(api, 3)
    answer = await api.get(CM, limit=1, resourceVersion="0")
    assert (len(answer["items"]), answer.metadata.keys()) == (3, {"resourceVersion"})


@served
async def test_expired_continue_token_is_410_with_an_inconsistent_token(api):
    await _many(api, 5)
    first = await api.get(CM, limit=2)
    await api.delete(f"{CM}/c03")
    await api.made(CM, cm("late"))
    await api.storage.compact(api.revision)
    answer = await api.get(CM, limit=2, continue_=first.metadata["continue"])
    assert answer.error == (410, "Expired", CONTINUE_EXPIRED)
    token = answer.metadata["continue"]
    assert _fields(token)["rv"] == -1
    rest = await api.get(CM, limit=2, continue_=token)
    assert rest.names == ["c02", "c04"]
    assert rest.version == str(api.revision)
    assert _fields(rest.metadata["continue"])["rv"] == api.revision
    last = await api.get(CM, limit=2, continue_=rest.metadata["continue"])
    assert last.names == ["late"]


@served
async def test_continue_token_expires_on_an_idle_server(api):
    await _many(api, 6)
    first = await api.get(CM, limit=2)
    await asyncio.sleep(200)
    second = await api.get(CM, limit=2, continue_=first.metadata["continue"])
    assert second.names == ["c02", "c03"]
    await asyncio.sleep(200)
    # The pages of a list are one snapshot: its age is that of the first page.
    answer = await api.get(CM, limit=2, continue_=second.metadata["continue"])
    assert answer.error == (410, "Expired", CONTINUE_EXPIRED)
    token = answer.metadata["continue"]
    assert _fields(token)["rv"] == -1
    rest = await api.get(CM, limit=1, continue_=token)
    assert rest.names == ["c04"]
    await asyncio.sleep(200)
    last = await api.get(CM, limit=1, continue_=rest.metadata["continue"])
    assert last.names == ["c05"]


@served
async def test_a_fresh_token_of_an_old_revision_is_valid(api):
    await _many(api, 3)
    await asyncio.sleep(3600)
    first = await api.get(CM, limit=2)
    assert (await api.get(CM, limit=2, continue_=first.metadata["continue"])).names == ["c02"]


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("abc", ""),
        ("!!!!", "illegal base64 data"),
        (_token(rv=0, start="a"), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (_token(rv=-2, start="a"), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (_token(rv="5", start="a"), ""),
        (_token(rv=5), "encoded start key empty (version meta.k8s.io/v1)"),
        (_token(rv=5, start="/../secrets/x"), "/../secrets/x"),
        (_token(v="v9", rv=5, start="a"), "server does not recognize this encoded version v9"),
        ("bnVsbA", ""),
        ("W10", ""),
    ],
)
@served
async def test_bad_tokens_are_refused(api, token, why):
    answer = await api.get(CM, limit=1, continue_=token)
    assert answer.error[:2] == (400, "BadRequest")
    assert answer.message.startswith(f"invalid continue token: continue key is not valid: {why}")


@served
async def test_continue_token_cannot_read_another_collection(api):
    secrets = f"{NS}/default/secrets"
    await api.made(secrets, {"metadata": {"name": "hidden"}})
    for start in ("../../secrets/default/", "/registry/core/secrets/", "..", "a/../../x"):
        answer = await api.get(CM, continue_=_token(rv=api.revision, start=start))
        assert answer.status == 400 or answer["items"] == [], start


@served
async def test_continue_token_of_a_future_revision_is_a_timeout(api):
    answer = await api.get(CM, continue_=_token(rv=99999999, start="a\0"))
    assert answer.error[:2] == (504, "Timeout")


# -- revisions --------------------------------------------------------------------------------------------------------


@served
async def test_exact_match_lists_a_past_revision(api):
    await api.made(CM, cm("a", data={"k": "1"}))
    then = api.revision
    await api.patch(f"{CM}/a", {"data": {"k": "2"}})
    await api.made(CM, cm("b"))
    await api.delete(f"{CM}/a")
    answer = await api.get(CM, resourceVersion=then, resourceVersionMatch="Exact")
    assert answer.version == str(then)
    assert [item["data"] for item in answer["items"]] == [{"k": "1"}]
    # A limit without a match means the same, for clients from before there was one.
    answer = await api.get(CM, resourceVersion=then, limit=1)
    assert (answer.version, answer.names) == (str(then), ["a"])


@served
async def test_exact_revision_with_selectors_and_pages(api):
    for index in range(6):
        await api.made(CM, cm(f"c{index}", metadata={"labels": {"odd": str(index % 2)}}))
    then = api.revision
    await api.delete(CM)
    query = {"resourceVersion": then, "resourceVersionMatch": "Exact", "labelSelector": "odd=0", "limit": 2}
    first = await api.get(CM, **query)
    assert first.names == ["c0", "c2"]
    rest = await api.get(CM, limit=2, labelSelector="odd=0", continue_=first.metadata["continue"])
    assert (rest.names, rest.version) == (["c4"], str(then))
    answer = await api.get(CM, resourceVersion=then, resourceVersionMatch="Exact", fieldSelector="metadata.name=c3")
    assert answer.names == ["c3"]


@served
async def test_not_older_than_lists_the_latest_state(api):
    await api.made(CM, cm("a"))
    then = api.revision
    await api.made(CM, cm("b"))
    for query in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        answer = await api.get(CM, resourceVersion=then, **query)
        assert (answer.names, answer.version) == (["a", "b"], str(api.revision))
    answer = await api.get(CM, resourceVersion=then, resourceVersionMatch="NotOlderThan", limit=1)
    assert (answer.names, answer.version) == (["a"], str(api.revision))


@pytest.mark.parametrize("query", [{"resourceVersionMatch": "Exact"}, {"limit": 5}])
@served
async def test_compacted_revision_is_expired(api, query):
    await _many(api, 3)
    then = api.revision
    await api.made(CM, cm("d"))
    await api.made(CM, cm("e"))
    await api.storage.compact(api.revision - 1)
    answer = await api.get(CM, resourceVersion=then, **query)
    assert answer.error == (410, "Expired", TOO_OLD)
    assert answer.metadata == {}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Foo", "resourceVersion": "1"},
            'resourceVersionMatch: Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", ""',
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1", "continue_": "x"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            {"sendInitialEvents": "true"},
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ],
)
@served
async def test_invalid_combinations_of_list_options_are_refused(api, query, why):
    answer = await api.get(CM, **query)
    assert answer.error == (422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {why}')
    assert answer["details"]["kind"] == "ListOptions"


@served
async def test_continue_and_revision_exclude_each_other(api):
    await _many(api, 3)
    token = (await api.get(CM, limit=1)).metadata["continue"]
    answer = await api.get(CM, limit=1, continue_=token, resourceVersion="5")
    assert answer.error == (400, "BadRequest", "specifying resource version is not allowed when using continue")
    assert (await api.get(CM, limit=1, continue_=token, resourceVersion="0")).status == 200


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            {"resourceVersion": "abc"},
            (
                'invalid resource version: resourceVersion: Invalid value: "abc": '
                'strconv.ParseUint: parsing "abc": invalid syntax'
            ),
        ),
        ({"limit": "abc"}, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"timeoutSeconds": "abc"}, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"limit": "²"}, 'strconv.ParseInt: parsing "²": invalid syntax'),
    ],
)
@served
async def test_numbers_must_be_numbers(api, query, why):
    assert (await api.get(CM, **query)).error == (400, "BadRequest", why)


@served
async def test_unknown_parameters_are_ignored(api):
    assert (await api.get(CM, frob="1")).status == 200


# -- selectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", ["a", "b", "c"]),
        ("x=1", ["a"]),
        ("x==1", ["a"]),
        ("x!=1", ["b", "c"]),
        ("x in (1,2)", ["a", "b"]),
        ("x notin (1)", ["b", "c"]),
        ("x", ["a", "b"]),
        ("!x", ["c"]),
        ("x>1", ["b"]),
        ("x,y", ["b"]),
        ("x=1,y", []),
    ],
)
@served
async def test_label_selectors(api, selector, names):
    await api.made(CM, cm("a", metadata={"labels": {"x": "1"}}))
    await api.made(CM, cm("b", metadata={"labels": {"x": "2", "y": ""}}))
    await api.made(CM, cm("c"))
    assert (await api.get(CM, labelSelector=selector)).names == names


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"labelSelector": "a in ("}, "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ({"labelSelector": "a=b,"}, "found '', expected: identifier after ','"),
        ({"fieldSelector": "foo"}, "invalid selector: 'foo'; can't understand 'foo'"),
        ({"fieldSelector": "a=b=c"}, "invalid field selector: unescaped character in value: 61"),
        (
            {"fieldSelector": "data.k=v"},
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
@served
async def test_bad_selectors_are_refused(api, query, why):
    assert (await api.get(CM, **query)).error == (400, "BadRequest", why)


@served
async def test_name_and_namespace_can_be_selected_everywhere(api):
    await _many(api, 3)
    answer = await api.get(CM, fieldSelector="metadata.name=c01")
    assert (answer.names, answer["kind"]) == (["c01"], "ConfigMapList")
    assert (await api.get(CM, fieldSelector="metadata.name!=c01")).names == ["c00", "c02"]
    assert (await api.get("/api/v1/configmaps", fieldSelector="metadata.namespace=kube-system")).names == []
    assert (await api.get(CM, fieldSelector="metadata.name=none")).names == []


@served
async def test_fields_of_pods_can_be_selected(api):
    await api.made(PODS, pod("a", nodeName="n1", restartPolicy="Never"))
    await api.made(PODS, pod("b", schedulerName="mine"))
    await api.made(PODS, pod("c", hostNetwork=True))
    for selector, names in [
        ("spec.nodeName=n1", ["a"]),
        ("spec.host=n1", ["a"]),
        ("spec.nodeName=", ["b", "c"]),
        ("spec.restartPolicy=Never", ["a"]),
        ("spec.schedulerName=mine", ["b"]),
        ("spec.hostNetwork=true", ["c"]),
        ("status.phase=Pending", ["a", "b", "c"]),
        ("status.phase!=Pending", []),
        ("status.podIP=", ["a", "b", "c"]),
        ("status.nominatedNodeName=", ["a", "b", "c"]),
        ("spec.nodeName!=n1,spec.schedulerName=mine", ["b"]),
    ]:
        assert (await api.get(PODS, fieldSelector=selector)).names == names, selector


@pytest.mark.parametrize(
    ("path", "selector", "why"),
    [
        (PODS, "spec.foo=x", "field label not supported: spec.foo"),
        ("/api/v1/nodes", "metadata.namespace=x", "field label not supported: metadata.namespace"),
        ("/api/v1/nodes", "spec.foo=x", "field label not supported: spec.foo"),
        (NS, "metadata.namespace=x", "field label not supported: metadata.namespace"),
        (SVC, "spec.foo=x", "field label not supported: spec.foo"),
        (f"{NS}/default/secrets", "foo=x", "field label not supported: foo"),
        (f"{NS}/default/events", "foo=x", "field label not supported: foo"),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            "involvedObject.name=x",
            "field label not supported: involvedObject.name",
        ),
        ("/apis/batch/v1/namespaces/default/jobs", "foo=x", 'field label "foo" not supported for Job'),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", "foo=x", "field label not supported: foo"),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "foo=x",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: foo",
        ),
        (
            DEPLOY,
            "spec.replicas=1",
            '"spec.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
@served
async def test_fields_that_cannot_be_selected(api, path, selector, why):
    assert (await api.get(path, fieldSelector=selector)).error == (400, "BadRequest", why)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/api/v1/nodes", ["metadata.name", "spec.unschedulable"]),
        (f"{NS}/default/replicationcontrollers", ["status.replicas"]),
        (SVC, ["spec.clusterIP", "spec.type"]),
        (f"{NS}/default/secrets", ["type"]),
        (
            f"{NS}/default/events",
            [
                *(
                    f"involvedObject.{f}"
                    for f in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
                ),
                *("reason", "reportingComponent", "source", "type"),
            ],
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            ["regarding.kind", "regarding.name", "reason", "reportingController", "type"],
        ),
        ("/apis/batch/v1/namespaces/default/jobs", ["status.successful"]),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", ["spec.signerName"]),
        ("/apis/resource.k8s.io/v1/resourceslices", ["spec.nodeName", "spec.driver"]),
        (PODS, ["spec.serviceAccountName", "status.podIPs"]),
    ],
)
@served
async def test_fields_that_can_be_selected(api, path, fields):
    for field in fields:
        answer = await api.get(path, fieldSelector=f"{field}=nothing-has-this")
        assert (answer.status, answer["items"]) == (200, []), (field, answer)


@served
async def test_fields_follow_updates(api):
    await api.made(DEPLOY, deployment("d"))
    await api.made("/api/v1/nodes", {"metadata": {"name": "n"}})
    assert (await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false")).names == ["n"]
    await api.patch("/api/v1/nodes/n", {"spec": {"unschedulable": True}})
    assert (await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=true")).names == ["n"]
    assert (await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false")).names == []


@served
async def test_label_and_field_selectors_are_combined(api):
    await api.made(CM, cm("a", metadata={"labels": {"x": "1"}}))
    await api.made(CM, cm("b", metadata={"labels": {"x": "1"}}))
    assert (await api.get(CM, labelSelector="x=1", fieldSelector="metadata.name=b")).names == ["b"]


@served
async def test_lists_by_a_selector_are_the_same_with_an_index(api):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "FEWEST_ITEMS", 1)
        for number in range(6):
            obj = pod(f"p{number}")
            obj["metadata"]["labels"] = {"app": f"a{number % 2}"}
            obj["spec"]["nodeName"] = f"n{number % 3}"
            await api.made(PODS, obj)
        queries = [
            {"fieldSelector": "spec.nodeName=n1"},
            {"labelSelector": "app=a1", "limit": 2},
            {"labelSelector": "app=no"},
        ]

        async def lists():
            answers = [await api.get(PODS, **query) for query in queries]
            return [[item["metadata"]["name"] for item in answer["items"]] for answer in answers]

        assert await lists() == await lists() == [["p1", "p4"], ["p1", "p3"], []]
        indexes = api.catalog.store("pods").cache.indexes
        assert len(indexes) == 2
        assert all(index.is_complete for index in indexes._indexes.values())
        await api.delete(f"{PODS}/p1", gracePeriodSeconds=0)
        assert await lists() == [["p4"], ["p3", "p5"], []]
