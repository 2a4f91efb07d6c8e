"""Watch frames."""

from __future__ import annotations

import pytest

from kapi.codec import json, stream


@pytest.mark.parametrize("event_type", [stream.ADDED, stream.MODIFIED, stream.DELETED, stream.BOOKMARK, stream.ERROR])
def test_a_frame_is_one_line_of_json(event_type):
    obj = {"kind": "Pod", "metadata": {"name": "line\nbreak"}}
    frame = stream.frame(event_type, json.encode(obj))
    assert frame.count(b"\n") == 1
    assert frame.endswith(b"\n")
    assert json.decode(frame) == {"type": event_type, "object": obj}
