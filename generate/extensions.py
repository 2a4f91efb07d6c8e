"""Compiles the modules that most requests go through with mypyc, for a wheel that is asked for with KAPI_COMPILE=1.

The source stays plain Python. Copies of the modules are translated to C, and compiled into one library and a small
extension module for each. They are put into the wheel next to the sources they are made from; Python imports an
extension module first. docs/explanation/design/0009-compiled-wheels.md says what is compiled, what is not, and why.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generate.compiledmodules import MODULES, OPEN_CLASSES
from generate.compiledsource import edited

GROUP = "kapi"
"""The library is called `kapi__mypyc`."""
_FLAGS = ("-O2", "-g0", "-fPIC", "-DNDEBUG", "-fno-strict-aliasing", "-fwrapv", "-w")
# What is not compiled is unknown to mypyc: reading all of Kapi takes a minute, and mypyc then cannot determine some of
# the types that mypy determines, because it reads in another order.
_CONFIGURATION = """\
[mypy]
follow_imports = skip
ignore_missing_imports = True
"""
# In a process of its own, because mypyc reads modules relative to its working directory, and prints what it finds.
_TRANSLATE = """
import json, sys
from mypyc.build import mypycify
group, answer, *arguments = sys.argv[1:]
made = mypycify(arguments, multi_file=True, target_dir="c", group_name=group)
with open(answer, "w") as file:
    json.dump({extension.name: extension.sources for extension in made}, file)
"""


_OFF_LOOP = tuple(f"__native_kapi___{package}___" for package in ("api", "codec", "registry", "schema"))
"""C files of packages whose functions work on whole objects, large ones in threads."""
# A function of Python is called now and then: the interpreter looks there whether another thread wants the lock. To
# release the lock and take it again would not do: a thread that waits for it insists only after 5 ms of silence.
_TURNS = """\
#include <Python.h>
static unsigned int kapi_turns;
static void kapi_turn(void) {
    static PyObject *nothing;
    PyObject *result;
    if (PyErr_Occurred()) return;
    if (nothing == NULL) {
        PyObject *globals = PyDict_New();
        if (globals != NULL) nothing = PyRun_String("lambda: None", Py_eval_input, globals, globals);
        Py_XDECREF(globals);
    }
    result = nothing == NULL ? NULL : PyObject_CallNoArgs(nothing);
    if (result == NULL) {
        /* A signal: it is raised again where Python is interpreted next. */
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
        PyErr_Clear();
    }
    Py_XDECREF(result);
}
#define KAPI_TURN() do { if ((++kapi_turns & 255) == 0) kapi_turn(); } while (0)
"""


class NotBuilt(Exception):
    """The extension modules could not be made; the text says why."""


def obstacle() -> str:
    """Why this Python cannot compile, in words; empty if it can."""
    if sys.implementation.name != "cpython":
        return f"mypyc compiles for CPython, and this is {sys.implementation.name}"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return f"Python {sys.version.split()[0]} has no headers: there is no {sysconfig.get_path('include')}/Python.h"
    if shutil.which(_compiler()[0]) is None:
        return f"there is no C compiler: {_compiler()[0]} is not found (the variable CC can name another)"
    return ""


def build(root: Path, folder: Path) -> list[str]:
    """Compile the tree at `root`, whose generated files must be there, in `folder`; returns the files of the wheel.

    Raises:
        NotBuilt: a tool is missing or failed. What it printed was on standard error.
    """
    if reason := obstacle():
        raise NotBuilt(reason)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "src" / "kapi", folder / "kapi", ignore=shutil.ignore_patterns("__pycache__"))
    paths = [Path(*module.split(".")).with_suffix(".py") for module in MODULES]
    for module, path in zip(MODULES, paths, strict=True):
        text = (folder / path).read_text()
        (folder / path).write_text(edited(module, text, modules=MODULES, open_classes=OPEN_CLASSES))
    extensions = _translate(folder, [str(path) for path in paths])
    for path in (folder / "c").glob("__native*.c"):
        if path.name.startswith(_OFF_LOOP):
            path.write_text(with_turns(path.read_text()))
    return _compile(folder, extensions)


def _translate(folder: Path, paths: list[str]) -> dict[str, list[str]]:
    """Let mypyc write C; returns the extension modules to make, and the sources of each."""
    (folder / "mypy.ini").write_text(_CONFIGURATION)
    _run([sys.executable, "-c", _TRANSLATE, GROUP, "extensions.json", "--config-file=mypy.ini", *paths], folder)
    found: dict[str, list[str]] = json.loads((folder / "extensions.json").read_text())
    return found


def with_turns(source: str) -> str:
    """Let other threads have their turn in every loop of a C file of mypyc.

    The interpreter does so when it jumps back. Without it a thread that works on a large object would keep the event
    loop waiting until it is done: the lock is given up only where Python is interpreted, or where something waits.
    """
    lines = [_TURNS]
    labels: set[str] = set()
    for line in source.splitlines():
        if line.startswith("}"):
            labels.clear()
        elif label := re.match(r"(CPyL\d+): ;", line):
            labels.add(label[1])
        lines.append(re.sub(r"goto (CPyL\d+);", lambda jump: _jump(jump[1], labels), line))
    return "\n".join(lines) + "\n"


def _jump(label: str, passed: set[str]) -> str:
    return f"{{ KAPI_TURN(); goto {label}; }}" if label in passed else f"goto {label};"


def _compile(folder: Path, extensions: dict[str, list[str]]) -> list[str]:
    import mypyc

    runtime = Path(mypyc.__file__).parent / "lib-rt"
    flags = [*_FLAGS, f"-I{sysconfig.get_path('include')}", f"-I{runtime}", "-Ic"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    targets = {name: name.replace(".", "/") + suffix for name in extensions}
    sources = [source for group in extensions.values() for source in group]
    links = [[*(f"{source}.o" for source in extensions[name]), "-o", targets[name]] for name in extensions]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda source: _run([*_compiler(), *flags, "-c", source, "-o", f"{source}.o"], folder), sources))
        list(pool.map(lambda link: _run([*_compiler(), "-shared", "-Wl,-s", *link], folder), links))
    return list(targets.values())


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or "cc")


def _run(command: list[str], folder: Path) -> None:
    # The output of a build front end belongs to its caller, who may read it.
    if subprocess.run(command, cwd=folder, stdout=sys.stderr, check=False).returncode:  # noqa: S603
        raise NotBuilt(f"{command[0]} failed; see above")
