"""The transcripts themselves: a session that shows something else than it should must fail."""

from __future__ import annotations

import pytest

from transcript import Terminal, agrees, normalised, steps

pytestmark = pytest.mark.peers


@pytest.fixture
def shell(tmp_path):
    return Terminal(tmp_path, {"PATH": "/usr/bin:/bin"}, minor=36, namespace="team-a")


@pytest.mark.parametrize(
    "transcript",
    [
        "$ echo other\nsame",
        "$ echo more; echo lines\nmore",
        "$ echo silence",
        "$ exit 3",
        "$ exit 3\n[1]",
        "$ echo first; echo last\n...\nfirst",
        "$ echo '  indented'\nindented",
        "$ echo to-stderr >&2\n",
    ],
)
def test_a_difference_is_reported(shell, transcript):
    with pytest.raises(AssertionError, match="--- expected"):
        shell(transcript)


def test_values_that_vary_have_placeholders(shell):
    shell("""
        $ echo 'NAME   AGE'; echo 'a      17s'; echo '3m5s   b'
        NAME  AGE
        a     <age>
        <age>   b
        $ echo 'cpu  250m 2026-01-02T03:04:05Z https://127.0.0.1:6443/x'
        cpu   250m <time> <server>/x
        $ echo "in <ns>"; echo oops >&2; exit 2
        in <ns>
        oops
        [2]
        $ cat <<END
        > one
        > two
        > END
        one
        two
        $ seq 5
        1
        ...
        5
    """)


def test_older_kubectl_versions_may_print_other_text(tmp_path):
    old = Terminal(tmp_path, {"PATH": "/usr/bin:/bin"}, minor=20, namespace="team-a")
    old("""
        $ echo 'pod "p" deleted'
        pod "p" deleted from <ns> namespace
    """)


def test_a_transcript_starts_with_a_command():
    with pytest.raises(ValueError, match="starts with a command"):
        list(steps("words\n$ echo"))


def test_empty_output_matches_only_empty_output():
    assert agrees("", "")
    assert agrees("...", "anything\nat all")
    assert not agrees("", normalised("x"))
