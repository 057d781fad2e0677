"""Which driver a scheme means: those that come with the package, and those that others register.

Nothing is imported before its scheme is asked for. A driver that comes with the package is never replaced by one that
is registered under its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from trunkline.errors import DriverError, InvalidArgument
from trunkline.nearest import nearest_name
from trunkline.portable.driver import Driver

GROUP = "trunkline.drivers"
BUILT_IN = {
    "memory": "trunkline.drivers.memory:DRIVER",
    "trunkline": "trunkline.drivers.postgres:DRIVER",
}


def driver_names() -> list[str]:
    """The schemes that can be opened here, sorted."""
    return sorted({*BUILT_IN, *(each.name for each in _registered())})


def find_driver(scheme: str) -> Driver:
    """The driver of a scheme; InvalidArgument names the nearest, DriverError a driver that cannot be used."""
    if scheme in BUILT_IN:
        module, _, name = BUILT_IN[scheme].partition(":")
        return _checked(scheme, getattr(import_module(module), name))
    for found in _registered():
        if found.name == scheme:
            return _checked(scheme, _load(found))
    raise InvalidArgument(
        f"no driver for {scheme}:// is installed; {nearest_name(scheme, driver_names())} "
        f"(packages register drivers as entry points of {GROUP!r})"
    )


def _registered() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _load(found: EntryPoint) -> object:
    try:
        return found.load()
    except Exception as error:
        raise DriverError(f"driver {found.name!r} ({found.value}) cannot be loaded: {error}") from error


def _checked(scheme: str, found: object) -> Driver:
    if not isinstance(found, Driver):
        raise DriverError(f"driver {scheme!r} must be a trunkline.portable.Driver, not {type(found).__name__}")
    if found.aio is None and found.sync is None:
        raise DriverError(f"driver {scheme!r} has neither an async nor a blocking form")
    return found
