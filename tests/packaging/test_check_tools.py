"""The checks of `make check` that are ours find what they promise to find."""

import pathlib
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def check(tool, root):
    finished = subprocess.run([sys.executable, TOOLS / tool, root], capture_output=True, text=True, check=False)
    assert finished.returncode in (0, 1), finished.stderr
    assert (finished.returncode == 0) == ("no problems" in finished.stdout)
    return finished.stdout.splitlines()[:-1]


@pytest.fixture
def documented(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")
    (tmp_path / "code.py").write_text("first\nsecond\n")
    (tmp_path / "docs/README.md").write_text("# Docs\n\n[Guide](guide.md#set-it-up)\n")
    (tmp_path / "docs/guide.md").write_text(
        "# Guide\n\n## Set it *up*\n\n## Set it up\n\n[back](README.md) [twice](#set-it-up-1) [code](../code.py#L1-L2)\n"
        "[site](https://example.com/root/x) `[not a link](gone.md)`\n\n```\n# Not a heading\n[nor a link](gone.md)\n```\n"
    )
    return tmp_path


def test_good_documentation_has_no_problems(documented):
    assert check("check_docs.py", documented) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[x](gone.md)", "'gone.md': no such file"),
        ("![x](gone.png)", "'gone.png': no such file"),
        ("[x]: gone.md", "'gone.md': no such file"),
        ('[x](gone.md "title")', "'gone.md': no such file"),
        ("[x](guide.md#nowhere)", "no such heading"),
        ("[x](guide.md#not-a-heading)", "no such heading"),
        ("[x](#set-it-up)", "no such heading"),
        ("[x](../code.py#L3)", "the file has 2 lines"),
        ("[x](../code.py#part)", "only Markdown files have headings"),
        ("[x](../../outside.md)", "leads out of the repository"),
        ("see /root/.kube/config", "path of one machine"),
        ("`ls /home/user`", "path of one machine"),
        ("```\ncat /tmp/mine/log\n```", "path of one machine"),
    ],
)
def test_bad_lines_are_found(documented, line, problem):
    with (documented / "docs/README.md").open("a") as page:
        page.write(line + "\n")
    (found,) = check("check_docs.py", documented)
    assert found.startswith("docs/README.md:")
    assert problem in found


def test_a_page_not_linked_from_the_index_is_found(documented):
    (documented / "docs/lost.md").write_text("# Lost\n")
    assert check("check_docs.py", documented) == ["docs/lost.md: no link leads here from docs/README.md"]


def test_a_changelog_needs_an_unreleased_section(documented):
    (documented / "CHANGELOG.md").write_text("# Changelog\n\n## [0.1.0]\n")
    assert check("check_docs.py", documented) == ["CHANGELOG.md: needs a section `## [Unreleased]`"]


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        ("api/names.py", "x = 1\n", "no docstring"),
        ("api/names.py", '"""Doc."""\n' + "\n" * 900, "901 lines"),
        ("server/utils.py", '"""Doc."""\n', "'utils' does not say"),
        ("server/helpers/x.py", '"""Doc."""\n', "'helpers' does not say"),
        ("registry/store.py", '"""Doc."""\nimport asyncio\nasyncio.open_connection("h", 1)\n', ":3: asyncio.open_conn"),
        ("schema/x.py", '"""Doc."""\nfrom asyncio import start_server\n', ":2: asyncio.start_server"),
    ],
)
def test_bad_modules_are_found(tmp_path, file, source, problem):
    path = tmp_path / "src/kapi" / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    (found,) = check("check_tree.py", tmp_path)
    assert problem in found


def test_good_modules_have_no_problems(tmp_path):
    for file, source in {
        "server/transport/serve.py": '"""Doc."""\nimport asyncio\nasyncio.start_server(None)\n',
        "api/__init__.py": "",
        "api/builtin/core_v1.py": "x = 1\n" * 1000,
    }.items():
        path = tmp_path / "src/kapi" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert check("check_tree.py", tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("src/kapi/api/names.py", '"""Doc."""\n# Whoever asks is answered.\n', ":2: 'Whoever' is not plain"),
        ("src/kapi/api/names.py", '"""Doc."""\nsettled = 1\n', ":2: 'settled' is not plain; write: resolve"),
        ("docs/README.md", "As the reference does.\n", ":1: 'the reference' is not plain; write: kube-apiserver"),
        ("README.md", "Objects are judged.\n", ":1: 'judged' is not plain; write: validate"),
        ("tests/unit/test_x.py", "def test_nobody_waits():\n", ":1: 'nobody' is not plain"),
    ],
)
def test_words_that_are_not_plain_are_found(tmp_path, file, text, problem):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (found,) = check("check_tree.py", tmp_path)
    assert problem in found


def test_plain_uses_of_such_words_are_allowed(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text(
        "The reference documentation; the reference count of a judgelike roommate.\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_x.py").write_text('def test_x():\n    assert user == "nobody"\n')
    assert check("check_tree.py", tmp_path) == []
