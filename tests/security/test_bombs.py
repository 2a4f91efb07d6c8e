"""Bodies made to kill, stall or confuse a Python server: each is refused quickly, or read as Kubernetes reads it.

The first two classes are CVE-2019-11253 and CVE-2019-11254. What could take the process down runs in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from kapi.codec import json, protobuf, yaml
from kapi.codec.errors import DecodeError

REFUSE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from kapi.codec import json, yaml, protobuf
from kapi.codec.errors import DecodeError
try:
    {codec}.decode({body})
except DecodeError as error:
    sys.exit(f"refused: {{error.message}}")
"""

BOMBS = [
    ("yaml", "b'[' * 400_000", "exceeded max depth"),
    ("yaml", "b'{a: ' * 100_000", "exceeded max depth"),
    ("yaml", "b'- ' * 200_000", "exceeded max depth"),
    ("yaml", "b'? ' * 200_000", "exceeded max depth"),
    ("yaml", "b'[' * 400_000 + b']' * 400_000", "exceeded max depth"),
    ("yaml", ("b'a: &a [x]\\n' + b''.join(b'%c: &%c [%s]\\n' % (c, c, b','.join([b'*%c' % (c - 1)] * 9)) "
             "for c in range(98, 123))"), "excessive aliasing"),
    ("yaml", ("b'a: &a {k: v}\\n' + b''.join(b'%c: &%c {%s}\\n' % (c, c, b','.join(b'x%d: *%c' % (i, c - 1) "
             "for i in range(9))) for c in range(98, 123))"), "excessive aliasing"),
    ("yaml", "b'x: &x {' + b','.join(b'k%d: 1' % i for i in range(5000)) + b'}\\ny:\\n' + b'  <<: *x\\n' * 5000",
     "excessive aliasing"),
    ("yaml", "b'a: &a ' + b'x' * 900_000 + b'\\nb: [' + b','.join([b'*a'] * 5000) + b']'", "excessive aliasing"),
    ("yaml", "b'a: &a [*a]'", "contains itself"),
    ("yaml", "b'[' + b'a,' * 500_000 + b']'", "nodes"),
    ("yaml", "b'a: ' + b'x' * (1 << 20)", "larger than"),
    ("json", "b'[' * 3_000_000", "exceeded max depth"),
    ("json", "b'{\"a\":' * 500_000", "exceeded max depth"),
    ("json", "b'[' * 100_000 + b']' * 100_000", "exceeded max depth"),
    ("json", "b'9' * 5_000", "cannot unmarshal number"),
    ("json", "b'9' * 3_000_000", "cannot unmarshal number"),
    ("json", "b'1e999999999'", "cannot unmarshal number"),
    ("json", "b'[1e-1, -1e400]'", "cannot unmarshal number"),
    ("json", "b'\"' + b'\\\\ud800' * 500_000 + b'\"'", "invalid"),
    ("json", "b'[' + b'1,' * 1_500_000", "unexpected end"),
    ("json", "b'NaN'", "invalid character 'N'"),
    ("json", "b'-Infinity'", "invalid character 'I'"),
    ("protobuf", "protobuf.MAGIC + b'\\x0a\\x0f\\x0a\\x02v1\\x12\\x09ConfigMap\\x12\\x80\\x89\\x7a' + b'\\x52\\x00' * 1_000_000",
     "more than"),
    ("protobuf", "protobuf.MAGIC + b'\\x80' * 1_000_000", "integer overflow"),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "body", "reason"), BOMBS, ids=[f"{codec} {body[:40]}" for codec, body, _ in BOMBS])
def test_bombs_are_refused_in_bounded_memory_and_time(codec, body, reason):
    script = REFUSE.format(codec=codec, body=body)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, (done.returncode, done.stderr[-500:])
    assert done.stderr.startswith("refused: "), done.stderr[-500:]
    assert reason in done.stderr


def test_the_memory_limit_of_these_tests_catches_a_shared_node_bomb():
    """The control: PyYAML's own loader shares nodes, so the same bomb kills the process once it is written out."""
    bomb = b"a: &a [x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 108)
    )
    script = (
        "import resource, yaml, msgspec\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        f"msgspec.json.encode(yaml.safe_load({bomb!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("yes", True),
        ("No", False),
        ("2020-01-01", "2020-01-01"),
        ("012", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1e3", 1000),
        ("9223372036854775808", 2.0**63),
        ("1e400", "1e400"),
        ("~", None),
        ("'yes'", "yes"),
        ("!!str 012", "012"),
        ("0.0.0.0", "0.0.0.0"),
    ],
)
def test_yaml_is_read_as_kubernetes_reads_it(text, value):
    decoded = yaml.decode(f"a: {text}\n".encode())["a"]
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan", "!!python/object/apply:os.system [id]", "!!binary AA=="])
def test_yaml_that_json_cannot_hold_is_refused(text):
    with pytest.raises(DecodeError):
        yaml.decode(f"a: {text}\n".encode())


def test_accepted_bodies_can_be_encoded_again():
    """Lone surrogates and the like are accepted by many parsers and then fail on the way out, as a 500."""
    for data in (
        b'{"a":"\\ud83d\\ude00"}',
        b'{"a":"\\u0000"}',
        '{"a":"😀"}'.encode(),
        b'{"a":123456789012345678901234567890}',
    ):
        assert json.decode(json.encode(json.decode(data))) == json.decode(data)


def test_refusing_a_bomb_keeps_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        with pytest.raises(DecodeError):
            json.decode(b"[" * 100_000)
        with pytest.raises(DecodeError):
            yaml.decode(b"[" * 100_000)
        with pytest.raises(DecodeError):
            protobuf.decode(protobuf.MAGIC + b"\xff" * 100_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
