"""`trunkline driver`: which brokers can be reached from here, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import click

from trunkline.cli.output import write_facts, write_json, write_table
from trunkline.errors import TrunklineError

if TYPE_CHECKING:
    from trunkline.portable.driver import Capabilities, Driver


@click.group()
def driver() -> None:
    """List drivers of the portable API, and what they can do."""


@driver.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def list_drivers(*, as_json: bool) -> None:
    """List the drivers that are installed.

    A driver's name is the scheme of its URLs. Packages register drivers as entry points of trunkline.drivers.
    """
    from trunkline.portable.registry import driver_names

    rows = [_row(name) for name in driver_names()]
    if as_json:
        for row in rows:
            write_json(row)
        return
    columns = ["driver", "asyncio", "blocking", "topic parameters", "subscription parameters", "problem"]
    write_table(columns, [list(row.values()) for row in rows])


def _row(name: str) -> dict[str, object]:
    """A driver, also one that cannot be loaded: whoever looks wants to know."""
    from trunkline.portable.registry import find_driver

    try:
        found = find_driver(name)
    except TrunklineError as error:
        empty = dict.fromkeys(("asyncio", "blocking", "topic_parameters", "subscription_parameters"))
        return {"driver": name, **empty, "problem": str(error)}
    own = [each for each in found.subscription_parameters if each not in found.topic_parameters]
    return {
        "driver": name,
        "asyncio": "yes" if found.aio else "no",
        "blocking": "yes" if found.sync else "no",
        "topic_parameters": " ".join(found.topic_parameters),
        "subscription_parameters": " ".join(own),
        "problem": None,
    }


@driver.command()
@click.argument("url", metavar="URL")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["topic", "subscription"]),
    help="What the URL means. Default: a subscription, if it has a parameter that only subscriptions have.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def capabilities(url: str, kind: Literal["topic", "subscription"] | None, *, as_json: bool) -> None:
    """Show what a topic or subscription can do: it is opened, and closed again.

    The name of a driver in the place of a URL shows the most that the driver can do, and opens nothing.
    """
    from trunkline.portable.registry import find_driver

    found = _opened(url, kind) if "://" in url else find_driver(url).capabilities
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    if as_json:
        write_json(facts)
    else:
        write_facts([(name, _shown(value)) for name, value in facts.items()])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


def _opened(url: str, kind: Literal["topic", "subscription"] | None) -> Capabilities:
    import asyncio

    from trunkline.portable.address import parse_address
    from trunkline.portable.registry import find_driver

    address = parse_address(url)
    meant = kind or _meant(find_driver(address.scheme), address.parameters)
    return asyncio.run(_topic(url) if meant == "topic" else _subscription(url))


async def _topic(url: str) -> Capabilities:
    from trunkline.portable.aio.calls import Calls
    from trunkline.portable.batches import topic_driver
    from trunkline.portable.plan import plan_topic

    plan = plan_topic(url, {}, ())
    async with topic_driver(plan, Calls(plan)) as opened:
        return opened.capabilities


async def _subscription(url: str) -> Capabilities:
    from trunkline.portable.aio.calls import Calls
    from trunkline.portable.batches import subscription_driver
    from trunkline.portable.plan import plan_subscription

    plan = plan_subscription(url, {}, ())
    async with subscription_driver(plan, Calls(plan)) as opened:
        return opened.capabilities


def _meant(found: Driver, parameters: Mapping[str, str]) -> Literal["topic", "subscription"]:
    from trunkline.portable.plan import ReceiveOptions, SendOptions

    own = {*found.subscription_parameters, *ReceiveOptions.__annotations__}
    only = own - {*found.topic_parameters, *SendOptions.__annotations__}
    return "subscription" if only & parameters.keys() else "topic"
