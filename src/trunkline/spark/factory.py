"""A Spark session made for Trunkline: ``trunkline.spark.session()``.

Java is found or supplied, tasks are tried again, times are UTC, logs are quiet. What the caller, ``spark-submit`` or
``spark-defaults.conf`` has set is never overridden; a session that runs already is taken as it is, and what it lacks
is told in one warning.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trunkline.errors import InvalidArgument, NotConfigured
from trunkline.spark.defaults import (
    LOG_LEVELS,
    ZONE,
    Flags,
    is_local,
    java_options,
    settings_elsewhere,
    settings_for,
    settings_later,
    shortcomings,
)
from trunkline.spark.java import find_java

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import AnalysisException, PySparkRuntimeError
    from pyspark.sql import SparkSession
except ImportError as error:
    raise NotConfigured(f"Spark is not installed ({error}): pip install 'trunkline[spark]'") from error

DRIVER_FLAGS = "spark.driver.extraJavaOptions"
_CONNECT = "sc://"
_MASTER = re.compile(r"(local(\[.+\])?|local-cluster\[.+\]|yarn|spark://.+|k8s://.+)$")


def session(
    app_name: str = "trunkline",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, Any] | None = None,
    log_level: str = "ERROR",
    quick_start: bool = False,
) -> SparkSession:
    """A Spark session in which ``format("trunkline")`` works well.

    ``master``: where to run, ``local[*,4]`` unless ``spark-submit`` or ``spark-defaults.conf`` say otherwise: all cores
    of this machine, every task tried up to four times. ``spark://host:7077`` is a cluster. ``remote``: a Spark Connect
    server, like ``sc://host:15002``. ``config``: Spark's own settings; they win over ours.

    ``quick_start`` is for programs that end within minutes: Java starts in two thirds of the time, and long work is
    slower.

    Where a session runs already, that one is returned. Settings of ``config`` are made in it, and of ours those that
    nobody has set; a warning names what else ours would have. InvalidArgument if it cannot become what was asked for.
    """
    flags = Flags(log_level=_checked_level(log_level), quick_start=quick_start)
    asked = {key: _text(value) for key, value in (config or {}).items()}
    master = master or asked.pop("spark.master", None)
    remote = remote or asked.pop("spark.remote", None)
    _check_place(master, remote)
    running = _running()
    if running is not None:
        return _adopt(running, master, remote, asked)
    if remote is not None or (master is None and "SPARK_REMOTE" in os.environ):
        return _connect(app_name, remote or os.environ["SPARK_REMOTE"], asked)
    return _start(app_name, master, asked, flags)


def register(spark: SparkSession) -> None:
    """Make ``format("trunkline")`` known to a session that has not found it by itself.

    Spark finds it where the package is installed beside the Python of its driver. The package is needed there all the
    same; this helps where Spark looked before it was.
    """
    from trunkline.spark.provider import TrunklineSource

    spark.dataSource.register(TrunklineSource)


# -- a new one --


def _start(app_name: str, master: str | None, asked: dict[str, str], flags: Flags) -> SparkSession:
    """In a Java of our own, or in the one that is there: spark-submit's, or an earlier session's."""
    has_java = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None  # noqa: SLF001 - no other way
    set_before = _submitted() if "PYSPARK_GATEWAY_PORT" in os.environ else settings_elsewhere(os.environ)
    master = master or set_before.get("spark.master") or os.environ.get("MASTER") or "local[*,4]"
    ours = {key: value for key, value in settings_for(master).items() if key not in set_before}
    wanted = {**ours, "spark.app.name": app_name, **asked, "spark.master": master}
    children = _launch_environment(master)
    if has_java:
        with _environment(**children):
            spark = _build(wanted)
        spark.sparkContext.setLogLevel(flags.log_level)
        return spark
    java = find_java()
    given = wanted.get(DRIVER_FLAGS, set_before.get(DRIVER_FLAGS))
    wanted[DRIVER_FLAGS] = " ".join(filter(None, [java_options(flags, os.environ), given]))
    try:
        with _environment(JAVA_HOME=str(java.home), **children):
            return _build(wanted)
    except PySparkRuntimeError as error:
        raise NotConfigured(
            f"Spark did not start on the Java in {java.home} ({java.origin}); what it said stands above. "
            f"Look at the settings that were given, {DRIVER_FLAGS} first: {error}"
        ) from error


def _build(wanted: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _submitted() -> dict[str, str]:
    """What spark-submit was told, on its command line and in its files."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - else SparkConf does not see it
    return dict(SparkConf().getAll())


def _launch_environment(master: str) -> dict[str, str]:
    # The launcher is a Java of its own that lives for an instant.
    wanted = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if is_local(master):
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    return {name: value for name, value in wanted.items() if name not in os.environ}


@contextmanager
def _environment(**wanted: str) -> Iterator[None]:
    """For the children that are started meanwhile."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _connect(app_name: str, remote: str, asked: dict[str, str]) -> SparkSession:
    """On a Connect server, which has its Java, its checkpoints and its logs: of ours, what a session of it may set."""
    try:
        spark = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
    except ImportError as error:
        raise NotConfigured(f"Spark Connect is not installed ({error}): pip install 'pyspark[connect]'") from error
    for key, value in {ZONE: "UTC", **settings_later(_CONNECT), **asked}.items():
        if key in asked or spark.conf.get(key, None) is None:
            _set(spark, key, value)
    return spark


# -- one that is there --


def _running() -> SparkSession | None:
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - no other way
        return SparkSession.builder.getOrCreate()
    if "SPARK_CONNECT_MODE_ENABLED" not in os.environ:
        return None
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _adopt(spark: SparkSession, master: str | None, remote: str | None, asked: Mapping[str, str]) -> SparkSession:
    where = str(spark.sparkContext.master) if hasattr(spark, "_jsparkSession") else _CONNECT
    if (master is not None and master != where) or (remote is not None and where != _CONNECT):
        raise InvalidArgument(
            f"a Spark session runs here already, on {where}, and cannot move to {master or remote}: "
            "stop() it first, or leave out where to run"
        )
    for key, value in asked.items():
        _set(spark, key, value)
    for key, value in settings_later(where).items():
        if spark.conf.get(key, None) is None:
            _set(spark, key, value)
    lacking = shortcomings(where, {key: spark.conf.get(key) for key in (ZONE, *settings_later(where))})
    if lacking:
        warnings.warn(
            "the Spark session that runs here was not made by trunkline.spark.session(): " + "; ".join(lacking),
            stacklevel=3,
        )
    return spark


def _set(spark: SparkSession, key: str, value: str) -> None:
    if spark.conf.get(key, None) == value:
        return
    try:
        spark.conf.set(key, value)
    except AnalysisException as error:
        raise InvalidArgument(
            f"{key} cannot be changed in a Spark session that runs: stop() it first, or leave the setting out"
        ) from error


# -- small things --


def _check_place(master: str | None, remote: str | None) -> None:
    if master is not None and remote is not None:
        raise InvalidArgument(f"give master or remote, not both: {master} is a cluster, {remote} a Connect server")
    if master is not None and not _MASTER.match(master):
        raise InvalidArgument(f"master must be like local[*,4], spark://host:7077, yarn or k8s://…, not {master!r}")
    if remote is not None and not remote.startswith(_CONNECT):
        raise InvalidArgument(f"remote must be like sc://host:15002, not {remote!r}; to run elsewhere, give master")


def _checked_level(level: str) -> str:
    if level.upper() not in LOG_LEVELS:
        raise InvalidArgument(f"log_level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
    return level.upper()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
