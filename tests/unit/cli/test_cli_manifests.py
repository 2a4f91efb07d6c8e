"""Reading manifests from wherever they are, and saying which one is wrong."""

import io
import sys

import pytest

from kapi.cli.manifests import parse, read
from kapi.cli.printer import CommandError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def _names(manifests):
    return [manifest.name for manifest in manifests]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for path in ("b.yaml", "a.yml", "c.json", "sub/d.yaml", "notes.txt"):
        text = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}' if path == "c.json" else POD % "x"
        (tmp_path / path).write_text(text)
    return tmp_path


def test_folder_is_read_in_order_without_what_is_below(folder):
    manifests = read([str(folder)])
    assert [manifest.source for manifest in manifests] == [str(folder / name) for name in ("a.yml", "b.yaml", "c.json")]


def test_recursive_folder_is_read_with_all_below(folder):
    below = str(folder / "sub" / "d.yaml")
    assert [manifest.source for manifest in read([str(folder)], recursive=True)][-1:] == [below]


def test_named_file_may_be_called_anything(folder):
    assert len(read([str(folder / "notes.txt"), str(folder / "c.json")])) == 2


def test_standard_input_is_a_file_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((POD % "a").encode())))
    (manifest,) = read(["-"])
    assert (manifest.name, manifest.source) == ("a", "STDIN")
    with pytest.raises(CommandError, match="more than once"):
        read(["-", "-"])


def test_many_documents_and_lists_are_taken_apart():
    data = f"""---
{POD % "a"}
---
---
apiVersion: v1
kind: List
items:
- {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: b}}}}
- {{apiVersion: v1, kind: PodList, items: [{{metadata: {{name: c, namespace: shop}}}}]}}
"""
    manifests = list(parse(data.encode(), "f"))
    assert [(manifest.gvk.kind, manifest.name, manifest.namespace) for manifest in manifests] == [
        ("Pod", "a", ""),
        ("Deployment", "b", ""),
        ("Pod", "c", "shop"),
    ]
    assert manifests[1].gvk.api_version == "apps/v1"
    assert manifests[2].obj["apiVersion"] == "v1"


def test_kind_that_merely_ends_in_list_is_no_list():
    data = b'{"apiVersion":"x.example/v1","kind":"AllowList","metadata":{"name":"a"},"spec":{}}'
    assert _names(parse(data, "f")) == ["a"]


def test_empty_file_has_no_manifests():
    assert list(parse(b"", "f")) == list(parse(b"# nothing\n---\n", "f")) == []


def test_metadata_may_be_left_out():
    (manifest,) = parse(b"apiVersion: v1\nkind: Pod\n", "f")
    assert (manifest.obj["metadata"], manifest.name) == ({}, "")


GOOD = POD % "a"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", r"f: yaml: "),
        (f"{GOOD}---\na: [\n", r"f \(document 2\): yaml: "),
        (f"---\n{GOOD}---\n{GOOD}---\na: [\n", r"f \(document 3\): yaml: "),
        ("3", "f: expected an object with apiVersion and kind, found a number"),
        ("true", "found a boolean"),
        (f"{GOOD}---\n- a\n", r"f \(document 2\): expected an object .* found a list"),
        ("kind: Pod", "f: apiVersion is not set"),
        (f"{GOOD}---\napiVersion: v1\n", r"f \(document 2\): kind is not set"),
        ("apiVersion: 1\nkind: Pod", "f: apiVersion is not set"),
        ("apiVersion: a/b/c\nkind: Pod", "f: apiVersion: unexpected GroupVersion string: a/b/c"),
        ("apiVersion: v1\nkind: Pod\nmetadata: x", "f: metadata must be an object, found a string"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 1}", "metadata.name must be a string; put it in quotes"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {namespace: n}",
            "metadata.namespace must be a string; put it in quotes",
        ),
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: '', kind: Pod}]", r"f, items\[0\]: apiVersion"),
        ("apiVersion: v1\nkind: List\nitems: [3]", r"f, items\[0\]: expected an object"),
    ],
)
def test_manifest_that_cannot_be_used_is_named(text, why):
    with pytest.raises(CommandError, match=why):
        list(parse(text.encode(), "f"))


def test_path_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(CommandError, match=r'the path ".*gone\.yaml" does not exist'):
        read([str(tmp_path / "gone.yaml")])
    with pytest.raises(CommandError, match="no manifests in it"):
        read([str(tmp_path)])
    with pytest.raises(CommandError, match=r"https://example\.com/a.yaml: manifests are read from files"):
        read(["https://example.com/a.yaml"])
