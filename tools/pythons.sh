# The Pythons that Kapi supports and that are installed, and an environment for each in .pythons/. Sourced by tests/pythons and
# tools/compiled_wheels, in the root of the tree, where .venv is.
SUPPORTED=(3.11 3.12 3.13 3.14)

version_of() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null; }

find_python() { # minor version
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if [[ $(version_of "$candidate") == "$1".* ]]; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# Debian's Python comes without ensurepip; the pip of .venv installs into any environment.
install_into() { # environment, pip arguments
    local environment=$1
    shift
    env -u PIP_USER -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT -u PIP_PYTHON .venv/bin/python -m pip \
        --disable-pip-version-check --python "$environment/bin/python" install --quiet "$@"
}

# Makes the environment of a Python with the locked packages and Kapi (editable), or brings it up to date; prints its folder.
environment_of() { # interpreter
    local environment
    environment=.pythons/$(version_of "$1")
    if [[ ! $environment/.installed -nt pyproject.toml || ! $environment/.installed -nt requirements/dev.txt ]]; then
        [[ -x $environment/bin/python ]] || "$1" -m venv --without-pip "$environment"
        install_into "$environment" --require-hashes --requirement requirements/dev.txt
        install_into "$environment" --no-deps --no-build-isolation --editable .
        touch "$environment/.installed"
    fi
    echo "$environment"
}

# Builds a compiled wheel with an environment; if that Python cannot, the reason is printed and the status is 3.
build_compiled() { # environment, folder for the wheel
    local reason
    reason=$("$1/bin/python" -c 'from generate.extensions import obstacle; print(obstacle())') || return 1
    if [[ $reason ]]; then
        echo "SKIP compiled wheel: $reason"
        return 3
    fi
    KAPI_COMPILE=1 "$1/bin/python" -m hatchling build --target wheel --directory "$2"
}
