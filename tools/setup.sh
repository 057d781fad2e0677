#!/bin/sh
# Finds a Python that is new enough and hands over to tools/bootstrap.py, which does the rest.
# Started by make in the root of the project; PYTHON=/path/to/python chooses another one.

new_enough() {
    "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "$PYTHON" ]; then
    command -v "$PYTHON" >/dev/null 2>&1 || {
        echo "setup: PYTHON=$PYTHON is not there; name a Python 3.11 or newer" >&2
        exit 1
    }
    exec "$PYTHON" tools/bootstrap.py "$@"
fi

for python in .venv/bin/python python3 python3.14 python3.13 python3.12 python3.11 python; do
    if new_enough "$python"; then
        exec "$python" -I tools/bootstrap.py "$@"
    fi
done

# Too old for us, yet able to say so.
for python in python3 python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' >/dev/null 2>&1; then
        exec "$python" tools/bootstrap.py "$@"
    fi
done

echo "setup: no Python found; install Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv)" >&2
exit 1
