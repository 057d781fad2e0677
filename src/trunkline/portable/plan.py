"""What a URL and its options come to: the driver, what it is to open, and how the library treats it. Nothing is opened
here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypedDict, TypeVar

import msgspec

from trunkline.errors import AckNotSupported, InvalidArgument, NotSupported
from trunkline.nearest import nearest_name
from trunkline.portable.address import Address, parse_address, redact, typed_parameters
from trunkline.portable.driver import Capabilities, Driver, Target
from trunkline.portable.registry import find_driver
from trunkline.settings import ReceiveSettings, SendSettings

SettingsT = TypeVar("SettingsT", SendSettings, ReceiveSettings)
_ABOUT_ACKS = ("acks", "nack", "nack_delay", "ack_deadline")


class SendOptions(TypedDict, total=False):
    """What ``open_topic`` may be given; see SendSettings."""

    send_wait_s: float
    batch_messages_max: int
    batch_bytes_max: int
    buffer_bytes_max: int
    deadline_s: float
    close_timeout_s: float


class ReceiveOptions(TypedDict, total=False):
    """What ``open_subscription`` may be given; see ReceiveSettings."""

    ack_wait_s: float
    ack_deadline_s: float
    ack_batch_max: int
    prefetch_max: int
    prefetch_bytes_max: int
    deadline_s: float
    close_timeout_s: float


class Plan(msgspec.Struct, Generic[SettingsT], frozen=True, kw_only=True):
    """What is to be opened, and how."""

    driver: Driver
    target: Target
    settings: SettingsT
    require: tuple[str, ...]
    secrets: frozenset[str]

    @property
    def name(self) -> str:
        """The driver's, for errors."""
        return self.driver.name

    @property
    def shown(self) -> str:
        return self.target.shown

    def redacted(self, text: str) -> str:
        """The text without secrets of the URL."""
        return redact(text, self.secrets)

    def check(self, capabilities: Capabilities) -> None:
        """NotSupported where something is missing that was asked for."""
        wanted = list(self.require)
        if self.target.ack_deadline_s is not None and "ack_deadline" not in wanted:
            wanted.append("ack_deadline")
        for name in wanted:
            if capabilities.lacks(name):
                kind = AckNotSupported if name in _ABOUT_ACKS else NotSupported
                raise kind(
                    f"the driver {self.name} has no {name}, which {self.shown} is to be opened with; "
                    "do without it, or choose another broker",
                    driver=self.name,
                    capability=name,
                )


def plan_topic(url: object, options: Mapping[str, Any], require: Collection[str]) -> Plan[SendSettings]:
    address = parse_address(url)
    driver = find_driver(address.scheme)
    return _plan(address, driver, driver.topic_parameters, SendSettings, options, require)


def plan_subscription(url: object, options: Mapping[str, Any], require: Collection[str]) -> Plan[ReceiveSettings]:
    address = parse_address(url)
    driver = find_driver(address.scheme)
    return _plan(address, driver, driver.subscription_parameters, ReceiveSettings, options, require)


def _plan(
    address: Address,
    driver: Driver,
    parameters: Mapping[str, type],
    kind: type[SettingsT],
    options: Mapping[str, Any],
    require: Collection[str],
) -> Plan[SettingsT]:
    own = _option_types(kind)
    for name in options:
        if name not in own:
            raise InvalidArgument(f"there is no option {name!r}; {nearest_name(name, own)}")
    values = typed_parameters(address.parameters, {**parameters, **own}, f"a {driver.name} URL", driver.secrets)
    in_url = {name: value for name, value in values.items() if name in own and name not in parameters}
    settings = kind(**{**in_url, **options})
    ahead = (
        {name: getattr(settings, name) for name in ("ack_deadline_s", "prefetch_max", "prefetch_bytes_max")}
        if isinstance(settings, ReceiveSettings)
        else {}
    )
    target = Target(
        scheme=address.scheme,
        host=address.host,
        port=address.port,
        path=address.path,
        username=address.username,
        password=address.password,
        parameters={name: value for name, value in values.items() if name not in in_url},
        shown=address.shown(driver.secrets),
        deadline_s=settings.deadline_s,
        **ahead,
    )
    return Plan(
        driver=driver,
        target=target,
        settings=settings,
        require=_required(require),
        secrets=address.secrets(driver.secrets),
    )


def _required(names: Collection[str]) -> tuple[str, ...]:
    if isinstance(names, str | bytes) or not isinstance(names, Collection):
        raise InvalidArgument("require takes the names of capabilities, as a list or tuple")
    known = Capabilities.__struct_fields__
    for name in names:
        if name not in known:
            raise InvalidArgument(f"there is no capability {name!r}; {nearest_name(name, known)}")
    return tuple(names)


def _option_types(kind: type[SendSettings] | type[ReceiveSettings]) -> dict[str, type]:
    return {name: float if name.endswith("_s") else int for name in kind.__struct_fields__}
