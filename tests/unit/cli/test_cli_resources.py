"""The small kubectl against a real server: what it does, what it prints, and how it exits."""

import json
import os
import signal
import subprocess
import sys

import pytest

from kapi.codec import yaml

CM = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{app: {app!r}}}\ndata: {{k: {value!r}}}\n"
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}, {name: d, image: envoy}]}
"""


def cm(name="a", value="1", app="x"):
    return CM.format(name=name, value=value, app=app)


def get(run, *arguments):
    """An object as JSON."""
    return json.loads(run("get", *arguments, "-o", "json", "--show-managed-fields"))


# -- reading ----------------------------------------------------------------------------------------------------------


def test_table_is_the_servers(run):
    run("create", "-f", "-", stdin=cm("a") + "---" + "\n" + cm("longer-name"))
    text = run("get", "cm")
    lines = [line.rsplit(" ", 1)[0].rstrip() for line in text.splitlines()]
    assert lines == ["NAME          DATA", "a             1", "longer-name   1"]
    assert run.code == 0


def test_types_are_joined_by_commas_and_shown_with_their_kind(run):
    run("create", "-f", "-", stdin=cm() + "---\n" + WEB)
    text = run("get", "cm,deploy", "--no-headers")
    assert [line.split()[0] for line in text.splitlines()] == ["configmap/a", "deployment.apps/web"]
    blocks = run("get", "configmaps,Deployment").split("\n\n")
    assert [block.split()[0] for block in blocks] == ["NAME", "NAME"]
    assert run("get", "cm/a", "deploy/web", "-o", "name") == "configmap/a\ndeployment.apps/web\n"


def test_category_stands_for_its_resources(run):
    run("create", "-f", "-", stdin=WEB)
    assert run("get", "all", "-o", "name") == "deployment.apps/web\n"


def test_wide_output_has_more_columns(run):
    run("create", "-f", "-", stdin=WEB)
    assert "IMAGES" not in run("get", "deploy")
    assert "IMAGES" in run("get", "deploy", "-o", "wide")


def test_selectors_choose(run):
    run("create", "-f", "-", stdin=cm("a") + "---\n" + cm("b", app="y"))
    assert run("get", "cm", "-l", "app=y", "-o", "name") == "configmap/b\n"
    assert run("get", "cm", "--field-selector", "metadata.name=a", "-o", "name") == "configmap/a\n"
    assert run("get", "cm", "-l", "app=y", "--show-labels").splitlines()[1].endswith("app=y")


def test_a_list_of_all_namespaces_has_a_namespace_column(run):
    run("create", "-f", "-", stdin=cm("everywhere"))
    text = run("get", "cm", "-A", namespace=False)
    assert text.startswith("NAMESPACE ")
    assert [line.split()[:2] for line in text.splitlines() if "everywhere" in line] == [[run.namespace, "everywhere"]]


def test_object_is_printed_as_yaml_and_json(run):
    run("create", "-f", "-", stdin=cm())
    document = yaml.decode(run("get", "cm", "a", "-o", "yaml").encode())
    assert (document["kind"], document["data"]) == ("ConfigMap", {"k": "1"})
    assert "managedFields" not in document["metadata"]
    listed = yaml.decode(run("get", "cm", "-o", "yaml").encode())
    assert (listed["kind"], listed["items"]) == ("List", [document])


def test_nothing_found_is_no_error(run):
    run("get", "cm")
    assert (run.code, run.out, run.err) == (0, "", f"No resources found in {run.namespace} namespace.\n")
    run("get", "pv")
    assert (run.code, run.err) == (0, "No resources found\n")


def test_missing_object_is_an_error_and_found_objects_are_printed(run):
    run("create", "-f", "-", stdin=cm())
    assert run.fails("get", "cm", "a", "gone") == 'Error from server (NotFound): configmaps "gone" not found\n'
    assert run.out.splitlines()[1].startswith("a ")
    run("get", "cm", "gone", "--ignore-not-found")
    assert (run.code, run.out, run.err) == (0, "", "")


def test_missing_namespace_is_what_is_missing(run):
    error = run.fails("get", "cm", "a", "-n", "nowhere", namespace=False)
    assert error == 'Error from server (NotFound): namespaces "nowhere" not found\n'


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["foos"], 'error: the server doesn\'t have a resource type "foos"'),
        (["deployments.batch"], 'error: the server doesn\'t have a resource type "deployments"'),
        ([], "error: You must specify the type of resource, for example: pods"),
        (["cm", "a", "-o", "xml"], 'error: -o "xml": expected one of wide, yaml, json, name'),
        (["cm", "a", "-l", "x=y"], "error: name cannot be provided when a selector is specified"),
        (["cm", "a", "-A"], "error: a resource cannot be retrieved by name across all namespaces"),
        (["cm/a", "pods"], "error: a resource and TYPE/NAME arguments cannot be mixed; write every one as TYPE/NAME"),
        (["cm/a/b"], 'error: "cm/a/b": expected one resource and one name, as in pod/a'),
        (["cm,pods", "-w"], "error: one resource, or one object of it, can be watched at a time"),
        (["cm", "gone", "-w"], 'Error from server (NotFound): configmaps "gone" not found'),
        (["cm", "--context", "elsewhere"], 'error: context "elsewhere" does not exist'),
    ],
)
def test_question_that_makes_no_sense_is_answered_in_one_line(run, arguments, error):
    assert run.fails("get", *arguments) == error + "\n"


def test_raw_path_is_printed_as_it_is(run):
    assert run("get", "--raw", "/readyz") == "ok"
    assert json.loads(run("get", "--raw", "/api/v1/namespaces?limit=1"))["metadata"]["continue"]


# -- create and replace -----------------------------------------------------------------------------------------------


def test_folder_is_created_object_by_object(run):
    run.file(cm("one"), "1.yaml")
    run.file(cm("two"), "2.yaml")
    assert run("create", "-f", run.folder) == "configmap/one created\nconfigmap/two created\n"
    error = f'Error from server (AlreadyExists): error when creating "{run.folder}/1.yaml": configmaps "one" already exists\n'
    (run.folder / "2.yaml").write_text(cm("three"))
    assert run.fails("create", "-f", run.folder) == error
    assert run.out == "configmap/three created\n"


def test_an_unknown_field_is_refused_unless_validate_is_ignore(run):
    path = run.file(cm() + "datas: {}\n")
    assert 'unknown field "datas"' in run.fails("create", "-f", path)
    run("create", "-f", path, "--validate", "warn")
    assert (run.code, run.out) == (0, "configmap/a created\n")
    assert run.err == 'Warning: unknown field "datas"\n'


def test_errors_of_an_invalid_object_are_printed_field_by_field(run):
    text = run.fails(
        "create", "-f", "-", stdin='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A b"},"data":{"a b":"x"}}'
    )
    head, *causes = text.splitlines()
    assert head == 'The ConfigMap "A b" is invalid: '
    assert [cause.split(":")[0] for cause in causes] == ["* metadata.name", "* data[a b]"]


def test_dry_run_says_so_and_stores_nothing(run):
    assert run("create", "-f", "-", "--dry-run=server", stdin=cm()) == "configmap/a created (server dry run)\n"
    run.fails("get", "cm", "a")
    assert run.fails("create", "-f", "-", "--dry-run=client", stdin=cm()).startswith('error: --dry-run="client"')


def test_written_object_can_be_printed(run):
    assert run("create", "-f", "-", "-o", "name", stdin=cm()) == "configmap/a\n"
    assert yaml.decode(run("replace", "-f", "-", "-o", "yaml", stdin=cm(value="2")).encode())["data"] == {"k": "2"}


def test_namespace_of_the_command_and_of_the_manifest_must_agree(run):
    text = cm().replace("name: a", "name: a\n  namespace: other")
    error = run.fails("create", "-f", "-", stdin=text)
    assert error == (
        f'error: the namespace from the provided object "other" does not match the namespace "{run.namespace}". '
        "You must pass '--namespace=other' to perform this operation.\n"
    )


def test_unknown_kind_does_not_stop_the_others(run):
    odd = "apiVersion: x.example/v1\nkind: Odd\nmetadata: {name: o}\n---\n"
    assert run.fails("create", "-f", "-", stdin=odd + cm()) == (
        'error: resource mapping not found for name: "o" namespace: "" from "STDIN": '
        'no matches for kind "Odd" in version "x.example/v1"\nensure CRDs are installed first\n'
    )
    assert run.out == "configmap/a created\n"


def test_broken_manifest_stops_everything_before_it_begins(run):
    path = run.file(cm() + "---\nkind: Pod\n")
    assert run.fails("create", "-f", path) == f"error: {path} (document 2): apiVersion is not set\n"
    run.fails("get", "cm", "a")


def test_second_replace_of_one_version_is_a_conflict(run):
    run("create", "-f", "-", stdin=cm())
    first, second = (
        run.file(run("get", "cm", "a", "-o", "yaml"), "1.yaml"),
        run.file(run.out.replace("'1'", "'3'"), "2.yaml"),
    )
    first.write_text(first.read_text().replace('"1"', '"2"'))
    assert run("replace", "-f", first) == "configmap/a replaced\n"
    error = run.fails("replace", "-f", second)
    assert error.startswith(
        f'Error from server (Conflict): error when replacing "{second}": Operation cannot be fulfilled'
    )
    assert get(run, "cm", "a")["data"] == {"k": "2"}


def test_replace_without_a_version_takes_whatever_is_there(run):
    assert "(NotFound)" in run.fails("replace", "-f", "-", stdin=cm())
    run("create", "-f", "-", stdin=cm())
    assert run("replace", "-f", "-", stdin=cm(value="2")) == "configmap/a replaced\n"
    nameless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n"
    assert "metadata.name is not set" in run.fails("replace", "-f", "-", stdin=nameless)


# -- apply ------------------------------------------------------------------------------------------------------------


def test_apply_creates_then_changes_then_leaves_alone(run):
    path = run.file(cm())
    assert run("apply", "-f", path) == "configmap/a created\n"
    assert run("apply", "-f", path) == "configmap/a unchanged\n"
    path.write_text(cm(value="2"))
    assert run("apply", "-f", path, "--dry-run=server") == "configmap/a configured (server dry run)\n"
    assert run("apply", "-f", path) == "configmap/a configured\n"
    assert get(run, "cm", "a")["data"] == {"k": "2"}


def test_apply_keeps_what_others_added_and_removes_what_it_dropped(run):
    run("apply", "-f", "-", stdin=WEB)
    run(
        "patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"s"}]}}}}'
    )
    run("apply", "-f", "-", stdin=WEB.replace("nginx", "nginx:2").replace(", {name: d, image: envoy}", ""))
    assert run.out == "deployment.apps/web configured\n"
    containers = get(run, "deploy", "web")["spec"]["template"]["spec"]["containers"]
    assert sorted((each["name"], each["image"]) for each in containers) == [("c", "nginx:2"), ("sidecar", "s")]


def test_apply_warns_about_objects_it_did_not_make(run):
    run("create", "-f", "-", stdin=cm())
    run("apply", "-f", "-", stdin=cm())
    assert run.err.startswith(
        "Warning: resource configmaps/a is missing the kubectl.kubernetes.io/last-applied-configuration"
    )
    assert run.out == "configmap/a configured\n"
    assert run("apply", "-f", "-", stdin=cm()) == "configmap/a unchanged\n"


def test_nulls_of_a_new_object_are_not_sent(run):
    assert run("apply", "-f", "-", stdin=cm().replace("k: '1'", "k: '1', gone: null")) == "configmap/a created\n"
    assert get(run, "cm", "a")["data"] == {"k": "1"}


def test_fields_of_two_server_side_appliers_are_both_kept(run):
    apply = ["apply", "--server-side", "-f", "-", "--field-manager"]
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {one: '1'}\n"
    assert run(*apply, "first", stdin=one) == "configmap/a serverside-applied\n"
    run(*apply, "second", stdin=one.replace("one: '1'", "two: '2'"))
    assert get(run, "cm", "a")["data"] == {"one": "1", "two": "2"}
    error = run.fails(*apply, "second", stdin=one.replace("'1'", "'9'"))
    assert error.startswith('error: Apply failed with 1 conflict: conflict with "first"')
    assert "--force-conflicts" in error
    run(*apply, "second", "--force-conflicts", stdin=one.replace("'1'", "'9'"))
    assert get(run, "cm", "a")["data"] == {"one": "9"}


def test_prune_deletes_what_was_applied_and_is_gone_from_the_manifests(run):
    run("create", "-f", "-", stdin=cm("by-hand"))
    run("apply", "-f", "-", stdin="---\n".join([cm("a"), cm("b"), cm("c", app="y")]))
    assert run("apply", "-f", "-", "--prune", "-l", "app=x", stdin=cm("a") + "---\n" + cm("other", app="y")) == (
        "configmap/a unchanged\nconfigmap/b pruned\n"
    )
    assert run("get", "cm", "-o", "name") == "configmap/a\nconfigmap/by-hand\nconfigmap/c\n"
    run("apply", "-f", "-", "--prune", "--all", "--prune-allowlist", "core/v1/ConfigMap", stdin=cm("a"))
    assert run.out == "configmap/a unchanged\nconfigmap/c pruned\n"


def test_nothing_is_pruned_when_something_failed(run):
    run("apply", "-f", "-", stdin=cm("a") + "---\n" + cm("b"))
    bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'A b', labels: {app: x}}\n"
    run.fails("apply", "-f", "-", "--prune", "-l", "app=x", stdin=bad)
    assert run("get", "cm", "-o", "name") == "configmap/a\nconfigmap/b\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--prune"], "without explicitly passing --all"),
        (["--prune", "--all", "-l", "a=b"], "cannot set --all and --selector at the same time"),
        (["--force-conflicts"], "--force-conflicts only works with --server-side"),
        (["--prune", "--all", "--prune-allowlist", "ConfigMap"], "invalid GroupVersionKind format: ConfigMap"),
        (["-l", "a in (b"], "unable to parse requirement"),
        (["-l", "no=match"], "no objects passed to apply"),
        (["--validate", "perhaps"], "expected strict, warn or ignore"),
    ],
)
def test_apply_that_makes_no_sense_is_refused(run, arguments, why):
    assert why in run.fails("apply", "-f", "-", *arguments, stdin=cm())


def test_generated_name_cannot_be_applied(run):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x-}\n"
    assert run.fails("apply", "-f", "-", stdin=text) == "error: from x-: cannot use generate name with apply\n"
    assert run("create", "-f", "-", stdin=text).startswith("configmap/x-")


# -- patch ------------------------------------------------------------------------------------------------------------


def test_patches_of_every_type_change_objects(run):
    run("create", "-f", "-", stdin=cm())
    assert run("patch", "cm", "a", "-p", "data: {k: '2'}") == "configmap/a patched\n"
    assert run("patch", "cm/a", "--type", "merge", "-p", '{"data":{"k":"2"}}') == "configmap/a patched (no change)\n"
    patch = run.file('[{"op":"add","path":"/data/l","value":"3"}]', "patch.json")
    assert run("patch", "cm", "a", "--type", "json", "--patch-file", patch) == "configmap/a patched\n"
    assert get(run, "cm", "a")["data"] == {"k": "2", "l": "3"}


def test_subresource_is_patched_apart(run):
    run("create", "-f", "-", stdin=WEB)
    run("patch", "deploy", "web", "--subresource", "scale", "--type", "merge", "-p", '{"spec":{"replicas":5}}')
    assert get(run, "deploy", "web")["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["cm", "a"], "must specify --patch or --patch-file"),
        (["cm", "a", "-p", "{}", "--patch-file", "x"], "cannot specify --patch and --patch-file together"),
        (["cm", "a", "--patch-file", "gone"], "unable to read patch file: gone: No such file"),
        (["cm", "a", "-p", "{"], 'unable to parse "{"'),
        (["cm", "a", "-p", "{}", "--type", "odd"], '--type must be one of json, merge, strategic, not "odd"'),
        (["cm", "-p", "{}"], "no name was specified"),
        (["cm", "gone", "-p", "{}"], 'Error from server (NotFound): configmaps "gone" not found'),
    ],
)
def test_patch_that_makes_no_sense_is_refused(run, arguments, why):
    assert why in run.fails("patch", *arguments)


# -- delete -----------------------------------------------------------------------------------------------------------


def test_objects_are_deleted_by_name_by_label_and_by_file(run):
    for name in "abcd":
        run("create", "-f", "-", stdin=cm(name, app=name))
    place = f"from {run.namespace} namespace"
    assert run("delete", "cm", "a", "b") == f'configmap "a" deleted {place}\nconfigmap "b" deleted {place}\n'
    assert run("delete", "cm", "-l", "app=c") == f'configmap "c" deleted {place}\n'
    path = run.file(cm("d"))
    assert run("delete", "-f", path, "--dry-run=server") == f'configmap "d" deleted {place} (server dry run)\n'
    assert run("delete", "-f", path, "-o", "name") == "configmap/d\n"
    error = f'Error from server (NotFound): error when deleting "{path}": configmaps "d" not found\n'
    assert run.fails("delete", "-f", path) == error
    run("delete", "-f", path, "--ignore-not-found")
    assert (run.code, run.err) == (0, "")
    assert run("delete", "cm", "--all") == "No resources found\n"


def test_grace_is_given_unless_forced(run):
    run("create", "-f", "-", stdin=cm("a") + "---\n" + cm("b"))
    assert run("delete", "cm", "a", "--grace-period", "0").startswith('configmap "a" deleted ')
    assert run("delete", "cm", "b", "--force").startswith('configmap "b" force deleted ')
    assert run.err.startswith("Warning: Immediate deletion ")


def test_delete_waits_for_finalizers(run):
    held = cm("a").replace("metadata:", "metadata:\n  finalizers: [example.com/hold]")
    run("create", "-f", "-", stdin=held)
    error = run.fails("delete", "cm", "a", "--timeout", "0.2")
    assert error == "error: timed out after 0.2 s waiting for the deletion of configmaps/a\n"
    run("delete", "cm", "a", "--wait=false")
    assert run.code == 0
    waiting = run.process("delete", "cm", "a", "-n", run.namespace)
    assert waiting.stdout.readline().startswith('configmap "a" deleted')
    run("patch", "cm", "a", "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
    assert waiting.communicate(timeout=30) == ("", "")
    assert waiting.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["cm"], "error: resource(s) were provided, but no name was specified"),
        (["cm", "a", "--all"], "error: name cannot be provided when a selector is specified"),
        (["cm", "--all", "-l", "a=b"], "error: cannot set --all and a selector at the same time"),
        (
            ["cm", "a", "--cascade", "perhaps"],
            'error: --cascade="perhaps": expected one of background, orphan, foreground',
        ),
        (["cm", "a", "--force", "--grace-period", "3"], "error: --force and --grace-period greater than 0"),
        (["cm", "a", "-o", "yaml"], "error: unexpected -o output mode: yaml"),
        (["cm", "gone"], 'Error from server (NotFound): configmaps "gone" not found'),
    ],
)
def test_delete_that_makes_no_sense_is_refused(run, arguments, why):
    assert run.fails("delete", *arguments).startswith(why)


# -- connections ------------------------------------------------------------------------------------------------------


def test_a_refused_connection_is_reported_in_one_line(run):
    error = run.fails("get", "cm", "--server", "https://127.0.0.1:1")
    assert error == "The connection to the server 127.0.0.1:1 was refused - is the control plane running? kapi up\n"


def test_nothing_configured_says_what_to_do(run, monkeypatch):
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(run.folder))
    assert run.fails("get", "cm").startswith("error: no cluster is configured; start one with `kapi up`")


def test_server_started_here_is_found_without_being_named(run, monkeypatch):
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(run.folder))
    (run.folder / ".kapi").mkdir()
    (run.folder / ".kapi" / "admin.kubeconfig").write_bytes(run.kubeconfig.read_bytes())
    assert run("get", "ns", run.namespace, "-o", "name") == f"namespace/{run.namespace}\n"


def test_token_and_authority_are_enough(run, monkeypatch):
    pki = run.kubeconfig.parent / "pki"
    url = yaml.decode(run.kubeconfig.read_bytes())["clusters"][0]["cluster"]["server"]
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(run.folder))
    options = ["--server", url, "--certificate-authority", pki / "ca.crt"]
    token = (pki / "admin.token").read_text()
    run("get", "ns", run.namespace, "-o", "name", *options, "--token", token)
    assert (run.out, run.err) == (f"namespace/{run.namespace}\n", "")
    assert (
        run.fails("get", "ns", *options, "--token", "x")
        == "error: You must be logged in to the server (Unauthorized)\n"
    )
    assert "could not be trusted" in run.fails("get", "ns", "--server", url)


def test_unknown_option_is_a_usage_error(run):
    run("get", "cm", "--frob")
    assert run.code == 2


# -- as processes -----------------------------------------------------------------------------------------------------


def test_watch_prints_changes_until_it_is_interrupted(run):
    run("create", "-f", "-", stdin=cm("a"))
    watching = run.process("watch", "cm", "-n", run.namespace)
    lines = [watching.stdout.readline(), watching.stdout.readline()]
    run("delete", "cm", "a")
    lines.append(watching.stdout.readline())
    watching.send_signal(signal.SIGINT)
    assert watching.communicate(timeout=30) == ("", "")
    assert watching.returncode == 130
    assert [line.split()[:2] for line in lines] == [["EVENT", "NAME"], ["ADDED", "a"], ["DELETED", "a"]]


def test_watched_object_is_printed_each_time(run):
    run("create", "-f", "-", stdin=cm("a"))
    watching = run.process("get", "cm", "a", "-w", "-o", "name", "-n", run.namespace)
    assert watching.stdout.readline() == "configmap/a\n"
    run("create", "-f", "-", stdin=cm("b"))
    run("patch", "cm", "a", "--type", "merge", "-p", '{"data":{"k":"2"}}')
    assert watching.stdout.readline() == "configmap/a\n"


def test_reader_that_left_is_not_an_incident(run):
    reading = run.process("get", "ns")
    reading.stdout.close()
    reading.stdout = None
    _, err = reading.communicate(timeout=30)
    assert (reading.returncode, err) == (1, "")


def test_help_and_up_do_not_load_the_client():
    program = (
        "import sys\n"
        "import kapi.cli.main\n"
        "print([name for name in ('aiohttp', 'kapi.client', 'kapi.server', 'yaml') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert done.stdout == "[]\n"
