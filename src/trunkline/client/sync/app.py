# Generated from src/trunkline/client/aio/app.py by tools/twins.py (make fix). Change the source, not this file.
"""An application that is nothing but handlers: it says which records each of them gets, and how.

    app = App()

    @app.on("orders", group="billing", concurrency=8, dead_letter="orders.dead")
    def bill(record: Record) -> None: ...

``trunkline run module:app`` runs it until SIGTERM; ``app.run()`` does the same from a program of one's own, and
``with app:`` lets it work beside something else.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from trunkline.client.sync.at_least_once import AtLeastOnce
from trunkline.client.sync.attempts import Handler
from trunkline.client.sync.by_section import BySection
from trunkline.client.sync.client import Client
from trunkline.client.sync.exactly_once import ExactlyOnce
from trunkline.client.sync.shim import Ending, Service, Stop, ended_by_signals
from trunkline.engine.checks import check_group_name, check_start, check_topic_name, check_topic_names, check_whole
from trunkline.errors import Closed, InvalidArgument
from trunkline.settings import By, ClientSettings, ConsumerSettings, Delivery, HandlerSettings

logger = logging.getLogger("trunkline")

CONCURRENCY_MAX = 1_000
CONSUMER_PATIENCE_S = 10.0
"""How much longer than a handler the consumer may be away: the app notices first, and says which record it was."""

Runner = AtLeastOnce | ExactlyOnce | BySection
Function = TypeVar("Function", bound=Callable[..., object])


class App:
    """Handlers, and what runs them: one client, and a consumer a handler.

    Where a handler fails for good, and there is no dead letter topic, or does not return, the whole app ends with that
    error: what it had not finished goes to other processes, or comes again when it is started again.
    """

    def __init__(self, url: str | None = None, *, settings: ClientSettings | None = None) -> None:
        self._url = url
        self._settings = settings
        self._handlers: list[Handler] = []
        self._client: Client | None = None
        self._services: list[Service] = []
        self._ending = Ending()

    # -- what is to be handled --

    def on(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        concurrency: int = 1,
        create: bool = False,
        delivery: Delivery = "at_least_once",
        dead_letter: str | None = None,
        by: By | None = None,
        settings: HandlerSettings | None = None,
    ) -> Callable[[Function], Function]:
        """Call the decorated function with every record of these topics, for a group.

        At most ``concurrency`` records are handled at once; those of one key one after the other, in their order. A
        record counts as handled when the function returns. Where it raises the record is tried again after a while,
        and at last put into the topic ``dead_letter``. An error that will pass, as of a server that restarts, is not
        held against it.

        With ``delivery="exactly_once"`` the function also gets a connection, and what it writes there is committed
        with the group's cursor; such records are handled one after the other. ``create`` makes the group where there
        is none.

        With ``by="group_key"`` too it gets, instead of a record, the list of all records of one key and group key in
        what was read, in their order. Each call is in a savepoint: where it fails for good all its records are put
        away, and the others commit. With ``blocked_keys`` in the settings later records of that key and group key then
        wait as well, until they are redriven.
        """
        wanted = check_topic_names(topics)
        check_group_name(group)
        check_whole("concurrency", concurrency, least=1, most=CONCURRENCY_MAX)
        _check_delivery(delivery, concurrency)
        self._check_new(wanted, group)
        how = settings or HandlerSettings()
        check_start(how.start)
        _check_by(by, delivery, blocked_keys=how.blocked_keys)
        if dead_letter is not None and check_topic_name(dead_letter) in wanted:
            raise InvalidArgument(f"records that fail would come back at once: {dead_letter} is what the handler reads")

        def add(function: Function) -> Function:
            _check_function(function, _ARGUMENTS[by or delivery])
            what = (function, tuple(wanted), group, concurrency, create, delivery, dead_letter, how, by)
            self._handlers.append(Handler(*what))
            return function

        return add

    def _check_new(self, topics: Sequence[str], group: str) -> None:
        taken = {topic for handler in self._handlers if handler.group == group for topic in handler.topics}
        twice = sorted(taken.intersection(topics))
        if twice:
            raise InvalidArgument(
                f"group {group} has a handler for {twice[0]} already; each would get a part of the records. For all of "
                "them, take another group"
            )

    @property
    def handlers(self) -> tuple[Handler, ...]:
        return tuple(self._handlers)

    @property
    def client(self) -> Client:
        """The client of the running app, for handlers that publish."""
        if self._client is None:
            raise Closed("this app is not running")
        return self._client

    # -- running --

    def run(self, url: str | None = None) -> None:
        """Handle records until SIGTERM, Ctrl-C or ``stop``, or until a handler fails for good, which is raised.

        At the end what has begun is finished, what is done is committed, and the partitions are handed over. A second
        signal ends the process at once. ``url`` stands in for the one that the app was made with.
        """
        self._check_ready()
        with ended_by_signals(self.stop):
            self._start(url)
            try:
                self.wait()
            finally:
                self.close()

    def wait(self) -> None:
        """Return when the app was told to stop, or has failed; ``close`` says why."""
        self._ending.wait()

    def stop(self) -> None:
        """Ask the running app to end, and do not wait for it. Handlers may do so."""
        self._ending.come()

    def __enter__(self) -> App:
        self._check_ready()
        self._start(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_ready(self) -> None:
        """Whether it can be started; from now on a ``stop`` counts."""
        if self._client is not None:
            raise InvalidArgument("this app is running already")
        if not self._handlers:
            raise InvalidArgument("this app handles nothing: write a function and decorate it with @app.on(…)")
        self._ending = Ending()

    def _start(self, url: str | None) -> None:
        """Connect and join the groups: what is missing shows here, before anything is handled."""
        client = self._client = Client.open(self._url if url is None else url, settings=self._settings)
        try:
            for handler in self._handlers:
                if handler.dead_letter is not None:
                    client.topic(handler.dead_letter)
            runners = [self._joined(client, handler) for handler in self._handlers]
        except BaseException:
            self._client = None
            client.close()
            raise
        self._services = [self._service(runner) for runner in runners]

    def _joined(self, client: Client, handler: Handler) -> Runner:
        settings = handler.settings
        consumer = client.consumer(
            list(handler.topics),
            group=handler.group,
            create=handler.create,
            start=settings.start,
            delivery=handler.delivery,
            settings=ConsumerSettings(
                handler_timeout_s=settings.handler_timeout_s + CONSUMER_PATIENCE_S,
                on_out_of_range=settings.on_out_of_range,
                partitions=settings.partitions,
            ),
        )
        consumer.__enter__()
        if handler.by is not None:
            return BySection(handler, client, consumer)
        kind = ExactlyOnce if handler.delivery == "exactly_once" else AtLeastOnce
        return kind(handler, client, consumer)

    def _service(self, runner: Runner) -> Service:
        def run(stop: Stop) -> None:
            try:
                runner.run(stop)
            finally:
                self.stop()

        return Service("trunkline-app", run, wake=runner.wake)

    def close(self) -> None:
        """End all handlers as ``run`` does; raises what the app has failed with. Twice is fine."""
        services, self._services = self._services, []
        for service in services:
            service.stop()
        failures: list[BaseException] = []
        for service in services:
            try:
                service.close()
            except BaseException as error:  # noqa: BLE001 - raised below, when the others have ended too
                failures.append(error)
        client, self._client = self._client, None
        if client is not None:
            client.close()
        for other in failures[1:]:
            logger.error("another handler failed as well: %s", other)
        if failures:
            raise failures[0]


def _check_delivery(delivery: object, concurrency: int) -> None:
    if delivery not in ("at_least_once", "exactly_once"):
        raise InvalidArgument(
            f"a handler's delivery is at_least_once or exactly_once, not {delivery!r}; for at_most_once use a consumer"
        )
    if delivery == "exactly_once" and concurrency != 1:
        raise InvalidArgument("exactly_once handles one record after the other: leave concurrency at 1")


def _check_by(by: object, delivery: Delivery, *, blocked_keys: bool) -> None:
    if by not in (None, "group_key"):
        raise InvalidArgument(f"by must be 'group_key' or left out, not {by!r}")
    if by is not None and delivery != "exactly_once":
        raise InvalidArgument(
            "by='group_key' handles each list of records in a transaction: add delivery='exactly_once'"
        )
    if not isinstance(blocked_keys, bool):
        raise InvalidArgument(f"blocked_keys must be True or False, not {blocked_keys!r}")
    if blocked_keys and by is None:
        raise InvalidArgument("blocked_keys lets later records of a group key wait: add by='group_key'")


_ARGUMENTS = {
    "at_least_once": ("a record",),
    "exactly_once": ("a record", "a connection"),
    "group_key": ("a list of records", "a connection"),
}


def _check_function(function: object, arguments: Sequence[str]) -> None:
    if not callable(function):
        raise InvalidArgument(f"a handler is a function, not {function!r}")
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    fits, kind = not is_async, "a plain function; async ones are for the App of `trunkline.aio`"
    if not fits:
        raise InvalidArgument(f"{function!r} must be {kind}")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        wanted = " and ".join(arguments)
        raise InvalidArgument(f"{function!r} is called with {wanted}, which it does not take") from None
