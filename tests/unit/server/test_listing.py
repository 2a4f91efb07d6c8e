"""Long lists: the same bytes as if they were made at once, of one moment, and with their memory counted."""

import gzip
import json
from urllib.parse import urlencode

import pytest

from api_client import CM, PARTIAL_LIST, TABLE, cm, served
from custom_kinds import ANYTHING, CRDS, WIDGETS, definition, version, widget
from kapi.api.limits import JSON_DEPTH
from kapi.codec import json as codec
from kapi.codec import yaml
from kapi.registry.encoding import draft
from kapi.server.handlers import listing, respond
from kapi.server.transport.message import Peer, Request

VIEWS = {"objects": "application/json", "metadata": PARTIAL_LIST, "table": TABLE}
SELECTIONS = {
    "all": {},
    "a page": {"limit": "3"},
    "some": {"labelSelector": "half=true"},
    "a page of some": {"labelSelector": "half=true", "limit": "2"},
    "none": {"labelSelector": "half=never"},
}
FORMS = {
    "compact": ("application/json", "false", lambda obj: codec.encode(obj) + b"\n"),
    "indented": ("application/json", "true", codec.encode_pretty),
    "yaml": ("application/yaml", "false", yaml.encode),
}
TEXTS = ["x", 'quoted "text"', "two\nlines", "é☃", "yes", "a" * 700, "b" * 5000]


@pytest.fixture
def small_pieces(monkeypatch):
    """Make every list a long one, with pieces of a hundred bytes."""
    for module, name, size in (
        (listing, "PIECE", 100),
        (listing, "SHORT", 0),
        (listing, "_BATCH", 100),
        (respond, "QUICK", 0),
        (respond, "SHORT_STORED", 0),
        (codec, "PRETTY_BYTES", 600),
    ):
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr("kapi.server.turns.PIECE", 100)


async def fill(api):
    for number, text in enumerate(TEXTS):
        labels = {"half": str(number % 2 == 0).lower()}
        await api.made(CM, cm(f"m{number}", metadata={"labels": labels}, data={"k": text}))


async def respond_to(api, path, accept="application/json", **query):
    """The response as the transport gets it."""
    peer = Peer("in-process", local=("admin", ("system:masters",)))
    return await api.pipeline(Request("GET", path, urlencode(query), {"accept": accept}, b"", peer))


@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@served
async def test_list_in_pieces_has_the_bytes_of_one_made_at_once(api, small_pieces, view, selection):
    await fill(api)
    obj = (await api.get(CM, headers={"accept": view}, **selection)).json
    for media_type, pretty, encode in FORMS.values():
        accept = view.replace("application/json", media_type)
        answer = await api.get(CM, headers={"accept": accept}, pretty=pretty, **selection)
        assert answer.raw == encode(obj)


@served
async def test_list_of_stored_bytes_knows_its_length(api, small_pieces):
    await fill(api)
    response = await respond_to(api, CM)
    pieces = [bytes(piece) async for piece in response.body.pieces()]
    assert response.body.length == sum(map(len, pieces))
    assert max(map(len, pieces)) < 1000
    assert [item["data"]["k"] for item in json.loads(b"".join(pieces))["items"]] == TEXTS


@served
async def test_long_list_is_compressed_in_pieces(api, small_pieces):
    await fill(api)
    answer = await api.get(CM, headers={"accept-encoding": "gzip"})
    assert (answer.header("Content-Encoding"), answer.header("Vary")) == ("gzip", "Accept-Encoding")
    assert [item["data"]["k"] for item in json.loads(gzip.decompress(answer.raw))["items"]] == TEXTS


@pytest.mark.parametrize(("media_type", "pretty"), [form[:2] for form in FORMS.values()], ids=FORMS)
@served
async def test_list_is_of_one_moment_and_what_it_alone_keeps_is_counted(api, small_pieces, media_type, pretty):
    await fill(api)
    response = await respond_to(api, CM, media_type, pretty=pretty)
    body, reports = response.body, []
    body.grown = lambda: reports.append(body.held)
    pieces = body.pieces()
    text = bytes(await anext(pieces))
    before = body.held
    await api.put(f"{CM}/m6", cm("m6", data={"k": "changed"}))
    await api.delete(f"{CM}/m5")
    assert reports[-1] == body.held >= before + 5700
    text += b"".join([bytes(piece) async for piece in pieces])
    assert b"a" * 700 in text
    assert b"b" * 5000 in text
    assert b"changed" not in text
    assert (await api.get(f"{CM}/m6"))["data"] == {"k": "changed"}


@pytest.mark.parametrize(("media_type", "pretty"), [form[:2] for form in FORMS.values()], ids=FORMS)
@served
async def test_changes_before_the_first_piece_are_counted(api, small_pieces, media_type, pretty):
    await fill(api)
    response = await respond_to(api, CM, media_type, pretty=pretty)
    await api.delete(f"{CM}/m6")
    pieces = response.body.pieces()
    await anext(pieces)
    assert response.body.held >= 5000


@pytest.mark.parametrize(("media_type", "pretty"), [form[:2] for form in FORMS.values()], ids=FORMS)
@served
async def test_cache_does_not_keep_the_snapshot_of_a_response_that_ended(api, small_pieces, media_type, pretty):
    await fill(api)
    cache = api.catalog.hub.cache("/registry/core/configmaps/")
    body = (await respond_to(api, CM, media_type, pretty=pretty)).body
    body.grown = print
    pieces = body.pieces()
    await anext(pieces)
    (snapshot,) = cache.snapshots
    assert snapshot.grown is print
    await pieces.aclose()
    assert not cache.snapshots
    assert snapshot.grown is None


@pytest.mark.parametrize("view", [*VIEWS.values()], ids=[*VIEWS])
@served
async def test_object_deeper_than_may_be_today_is_listed_in_every_form(api, view):
    """What was stored under other limits must not make its whole collection unreadable."""
    await api.made(CRDS, definition(versions=[version(root=ANYTHING | {"type": "object"}, storage=True)]))
    made = await api.made(WIDGETS, widget("deep", {}))
    deep = inner = made["spec"]
    for _ in range(JSON_DEPTH):
        inner["a"] = inner = {}
    assert deep
    await api.storage.put(
        "/registry/example.com/widgets/default/deep", draft(made), int(made["metadata"]["resourceVersion"])
    )
    obj = (await api.get(WIDGETS, headers={"accept": view})).json
    for media_type, pretty, encode in FORMS.values():
        accept = view.replace("application/json", media_type)
        answer = await api.get(WIDGETS, headers={"accept": accept}, pretty=pretty)
        assert (answer.status, answer.raw) == (200, encode(obj))
