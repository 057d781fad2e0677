"""Retention: rolls full segments, seals old ones, moves the log start, drops tables. Whole tables, never rows."""

from __future__ import annotations

import logging

from trunkline.client import protocol
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import Service, Stop
from trunkline.engine.checks import check_topic_name
from trunkline.errors import Conflict, InvalidArgument, NotFound, TrunklineError
from trunkline.records import RetentionStep

logger = logging.getLogger("trunkline")

_PRODUCERS_AT_ONCE = 100


class Retention:
    """Maintenance of one database, for one client. Several may run it at once: each step is done by one of them."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def run(self, topic: str | None = None) -> list[RetentionStep]:
        """Do everything that is due now, each step in a transaction of its own; what was done.

        A step that somebody's lock held up is reported as ``skip`` and left for the next run.
        """
        if topic is not None:
            check_topic_name(topic)
        done = await self._steps(topic, ("roll",)) + await self._steps(topic, ("seal",))
        done += await self._release(topic)
        done += await self._steps(topic, ("drop",))
        await self._expire_producers()
        await self._server.change(protocol.OUTBOX_SEQUENCE, [None])
        await self._server.change(protocol.GROUP_SWEEP, [None])
        await self._server.change(protocol.SINK_SWEEP)
        await self._server.change(protocol.INBOX_SWEEP)
        return done

    async def drop(self, segments: list[int]) -> list[RetentionStep]:
        """Drop the tables of released segments; one that is still being read is left for the next run."""
        return [await self._do("drop", segment_id) for segment_id in segments]

    def host(self, interval_s: float) -> Service:
        """Run it every so often until the service is closed. A failure is logged, and tried again next time."""
        if isinstance(interval_s, bool) or not isinstance(interval_s, int | float) or not 0 < interval_s < float("inf"):
            raise InvalidArgument(f"interval_s must be a positive number of seconds, not {interval_s!r}")

        async def loop(stop: Stop) -> None:
            while not stop.is_set:
                try:
                    await self.run()
                except TrunklineError as error:
                    logger.warning("retention failed, and is tried again in %s s: %s", interval_s, error)
                await stop.wait(interval_s)

        return Service("trunkline-retention", loop)

    async def _steps(self, topic: str | None, actions: tuple[str, ...]) -> list[RetentionStep]:
        due = await self._server.ask(protocol.RETENTION_DUE, [topic])
        return [await self._do(action, segment_id) for action, segment_id, _ in due if action in actions]

    async def _do(self, action: str, segment_id: int) -> RetentionStep:
        statement, parameters = {
            "roll": (protocol.ROLL, [segment_id]),
            "seal": (protocol.SEAL, [segment_id]),
            "drop": (protocol.DROP, [segment_id]),
        }[action]
        try:
            await self._server.once(statement, parameters)
        except Conflict as error:
            return RetentionStep("skip", segment_id, f"{action} has to wait: {error}")
        except NotFound:
            return RetentionStep("skip", segment_id, f"{action}: it is gone already")
        return RetentionStep(action, segment_id, "")

    async def _release(self, topic: str | None) -> list[RetentionStep]:
        rows = await self._server.ask(protocol.TOPICS, [topic])
        done: list[RetentionStep] = []
        for topic_id, *_ in rows:
            for segment_id, reason, record_count, byte_count in await self._server.change(
                protocol.RETENTION_RELEASE, [topic_id]
            ):
                done.append(RetentionStep("release", segment_id, reason, record_count, byte_count))
        return done

    async def _expire_producers(self) -> None:
        looked = _PRODUCERS_AT_ONCE
        while looked == _PRODUCERS_AT_ONCE:
            ((looked,),) = await self._server.change(protocol.PRODUCER_EXPIRE, [_PRODUCERS_AT_ONCE])
