"""A TCP proxy between client and server that fails at chosen moments. It understands where a request ends and where
its answer does, and nothing else.

A fault is armed and hits the next request that makes the server commit: a COMMIT, or a statement outside a
transaction block. Then it is known what the server has done. Rings are passed over: they are hints, sent beside
everything else, and whether one is on its way is chance.

Seen through a proxy a client takes its server for pooled, and sends BEGIN and COMMIT. ``as_if_direct`` hides that, and
it sends single statements.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from trunkline.client.aio import connection as aio
from trunkline.client.sync import connection as sync

QUERY, SYNC, EXECUTE, PASSWORD, TERMINATE, FLUSH = b"Q", b"S", b"E", b"p", b"X", b"H"
READY, IDLE = b"Z", b"I"
RINGER = b"\0trunkline ringer\0"
GUARD_S = 60.0
"""It only guards against hanging."""
ENDS_REQUEST = {QUERY, SYNC, PASSWORD, TERMINATE, FLUSH}


class Fault(Enum):
    """What happens to a request, and what that leaves behind on the server."""

    REQUEST_LOST = "the request never arrives"
    REQUEST_TORN = "half of the request arrives"
    REPLY_LOST = "it is executed and committed, the answer never arrives"
    REPLY_TORN = "it is executed and committed, half of the answer arrives"
    CLIENT_CUT = "it is delivered, and the client's connection ends before the server has answered"
    DELAYED = "the client's connection ends; the request arrives later, beside or after the client's next attempt"
    BLACK_HOLE = "it is executed, and nothing ever comes back, not even an end of the connection"
    HELD = "it never arrives, and neither side learns of it: the server waits in the middle of a transaction"


class _Link:
    """One client connection and its counterpart."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.client_in, self.client_out = client
        self.server_in, self.server_out = server
        self.fault: Fault | None = None
        self.is_silent = False
        self.is_ringer = False
        self.status = IDLE
        self.answer = bytearray()
        self.answered = asyncio.Event()

    def close(self) -> None:
        for writer in (self.client_out, self.server_out):
            writer.close()


class Proxy:
    """Forwards everything until a fault is armed. Runs in a thread of its own; every method may be called from any."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._armed: deque[tuple[Fault, bytes]] = deque()
        self._chance: Callable[[], Fault | None] = lambda: None
        self._dark = False
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: list[asyncio.Event] = []
        self._ports: dict[int, int] = {}
        self.delay_s = 0.1
        self.after_answer: Callable[[], object] = lambda: None
        """Called when the server has answered a request whose answer is lost, before the client knows."""
        self.hits: list[Fault] = []
        self.late_answers: list[bytes] = []
        """What the server said to requests that were DELAYED."""
        self.mode = "pooled"
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="proxy")

    def url(self, server_url: str) -> str:
        """The server's URL through this proxy. Without encryption: the proxy reads along."""
        parts = urlsplit(server_url)
        at = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{at}@127.0.0.1:{self.port}")) + "?sslmode=disable&gssencmode=disable"

    def arm(self, fault: Fault, naming: bytes = b"") -> None:
        """Let the next request that commits, and contains this name, suffer this."""
        self._armed.append((fault, naming))

    def disarm(self) -> None:
        """Take back what is armed and has not hit."""
        self._armed.clear()

    def by_chance(self, seed: int, probability: float, faults: list[Fault]) -> None:
        """From now on each committing request suffers one of these faults with this probability; 0 ends it."""
        chance = random.Random(seed)
        self._chance = lambda: chance.choice(faults) if chance.random() < probability else None

    def darken(self, *, dark: bool = True) -> None:
        """While dark, connections are accepted and nothing is forwarded: neither data nor ends."""
        self._dark = dark

    def fall_silent(self) -> None:
        """Forward nothing on the connections that are open now, neither data nor ends; new ones work."""
        for link in list(self._links):
            link.is_silent = True

    def server_sees(self, client_port: int | None) -> int | None:
        """The port from which the server sees a client that has this one."""
        return self._ports.get(client_port or 0)

    def deliver_late(self) -> None:
        """Send what was DELAYED on to the server now."""
        for event in self._late:
            self._loop.call_soon_threadsafe(event.set)

    def __enter__(self) -> Proxy:
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        listening.result(GUARD_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(GUARD_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GUARD_S)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in list(self._links):
            link.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Cancelled only by _stop: then this is the end of the proxy, and no failure.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._dark:
            await asyncio.Event().wait()
        link = _Link((reader, writer), await asyncio.open_connection("127.0.0.1", self._server_port, limit=2**26))
        self._links.add(link)
        self._ports[writer.get_extra_info("peername")[1]] = link.server_out.get_extra_info("sockname")[1]
        answers = asyncio.ensure_future(self._forward_answers(link))
        try:
            await self._forward_requests(link)
        finally:
            answers.cancel()
            self._links.discard(link)
            link.close()

    async def _forward_requests(self, link: _Link) -> None:
        startup = await link.client_in.readexactly(4)
        startup += await link.client_in.readexactly(int.from_bytes(startup) - 4)
        link.is_ringer = RINGER in startup
        link.server_out.write(startup)
        while True:
            request, commits = await self._request(link)
            fault = self._fault(request) if commits and not link.is_ringer else None
            if self._dark or link.is_silent:
                fault = Fault.HELD
            if fault is None:
                link.server_out.write(request)
                await link.server_out.drain()
            else:
                self.hits.append(fault)
                await self._suffer(link, fault, request)
                return

    def _fault(self, request: bytes) -> Fault | None:
        if not self._armed:
            return self._chance()
        return self._armed.popleft()[0] if self._armed[0][1] in request else None

    async def _request(self, link: _Link) -> tuple[bytes, bool]:
        """Messages up to the one that makes the server answer, and whether they make it commit."""
        parts: list[bytes] = []
        commits = False
        while True:
            head = await link.client_in.readexactly(5)
            body = await link.client_in.readexactly(int.from_bytes(head[1:]) - 4)
            parts.append(head + body)
            statement = head[:1] == EXECUTE or (head[:1] == QUERY and not body.startswith(b"BEGIN"))
            commits = commits or body == b"COMMIT\0" or (statement and link.status == IDLE)
            if head[:1] in ENDS_REQUEST:
                return b"".join(parts), commits

    async def _suffer(self, link: _Link, fault: Fault, request: bytes) -> None:
        link.fault = fault
        match fault:
            case Fault.REQUEST_LOST:
                return
            case Fault.REQUEST_TORN:
                link.server_out.write(request[: len(request) // 2])
                await link.server_out.drain()
            case Fault.DELAYED:
                link.client_out.close()
                await self._later()
                link.server_out.write(request)
                self.late_answers.append(await self._answer_of(link))
            case Fault.CLIENT_CUT:
                link.client_out.close()
                link.server_out.write(request)
                await self._answer_of(link)
            case Fault.REPLY_LOST | Fault.REPLY_TORN:
                link.server_out.write(request)
                answer = await self._answer_of(link)
                self.after_answer()
                if fault is Fault.REPLY_TORN:
                    link.client_out.write(answer[: len(answer) // 2])
                    with suppress(OSError):
                        await link.client_out.drain()
            case Fault.BLACK_HOLE:
                link.server_out.write(request)
                await asyncio.Event().wait()
            case Fault.HELD:
                await asyncio.Event().wait()

    async def _later(self) -> None:
        """Until the test asks for it, but not for ever: a COMMIT that is under way holds a lock on the server."""
        late = asyncio.Event()
        self._late.append(late)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.delay_s):
                await late.wait()

    async def _answer_of(self, link: _Link) -> bytes:
        """Everything that the server answers to the request, once it says that it is done."""
        await link.server_out.drain()
        await link.answered.wait()
        return bytes(link.answer)

    async def _forward_answers(self, link: _Link) -> None:
        """What the server says goes back as it comes; once a fault has hit, it is kept."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await link.server_in.readexactly(5)
                message = head + await link.server_in.readexactly(int.from_bytes(head[1:]) - 4)
                if head[:1] == READY:
                    link.status = message[5:6]
                if link.fault is not None:
                    link.answer += message
                    if head[:1] == READY:
                        link.answered.set()
                elif not self._dark and not link.is_silent:
                    link.client_out.write(message)
                    await link.client_out.drain()
        link.answered.set()
        if not self._dark and not link.is_silent and link.fault is None:
            link.client_out.close()


def as_if_direct(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients compare the port that the proxy uses: they then take the connection for a direct one, as those are
    that do not lead through the proxy."""
    proxy.mode = "direct"
    for kind in (aio.ServerConnection, sync.ServerConnection):
        own_port = kind._own_port

        def seen(self: Any, own_port: Callable[[Any], int | None] = own_port) -> int | None:
            port = own_port(self)
            return proxy.server_sees(port) or port

        monkeypatch.setattr(kind, "_own_port", seen)


@contextmanager
def between(server_url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before a server, and the URL through it."""
    port = urlsplit(server_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy, proxy.url(server_url)
