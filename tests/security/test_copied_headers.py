"""Headers that the server copies into responses, logs or objects: what is copied is bounded."""

from types import SimpleNamespace

from api_client import CM, cm, served
from kapi.api.limits import AUDIT_ID_LENGTH
from kapi.server.audit import record
from kapi.server.transport.message import Peer, Request

LONG = "x" * 250_000


@served
async def test_long_audit_id_is_cut(api):
    answer = await api.get(CM, headers={"Audit-Id": LONG})
    assert answer.header("Audit-Id") == "x" * AUDIT_ID_LENGTH
    answer = await api.get(CM, headers={"Audit-Id": "f3b6c1de-0000-4000-a000-000000000000"})
    assert answer.header("Audit-Id") == "f3b6c1de-0000-4000-a000-000000000000"


@served
async def test_no_response_header_is_longer_than_a_line(api):
    names = ("Audit-Id", "User-Agent", "Traceparent", "Tracestate", "X-Forwarded-For", "X-Request-Id", "If-None-Match")
    answer = await api.get(CM, headers=dict.fromkeys(names, LONG))
    assert answer.status == 200
    assert max(len(value) for _, value in answer.headers) <= AUDIT_ID_LENGTH


@served
async def test_long_user_agent_becomes_a_short_field_manager(api):
    made = await api.post(CM, cm("a", data={"k": "v"}), headers={"User-Agent": LONG})
    assert [len(entry["manager"]) for entry in made["metadata"]["managedFields"]] == [128]


def test_long_text_in_place_of_an_address_is_not_remembered():
    headers = {"x-forwarded-for": f"{LONG}, 10.0.0.1", "x-real-ip": LONG}
    context = SimpleNamespace(request=Request("GET", "/", headers=headers, peer=Peer("127.0.0.1")))
    record._is_address.cache_clear()
    assert record._source_addresses(context) == ["10.0.0.1", "127.0.0.1"]
    assert record._is_address.cache_info().currsize == 2
