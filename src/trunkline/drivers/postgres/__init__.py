"""The Postgres driver: topics, queues and groups of Trunkline's own log. ``trunkline://host:5432/db/orders``,
``trunkline://host:5432/db/orders?queue=emails``, ``?group=billing``; without a host the server that ``connect()``
finds."""

from __future__ import annotations

from trunkline.drivers.postgres.aio.driver import AsyncPostgresOpener
from trunkline.drivers.postgres.capabilities import MOST
from trunkline.drivers.postgres.place import LIBPQ, SECRETS
from trunkline.drivers.postgres.sync.driver import PostgresOpener
from trunkline.portable.driver import Driver

DRIVER = Driver(
    name="trunkline",
    capabilities=MOST,
    aio=AsyncPostgresOpener(),
    sync=PostgresOpener(),
    topic_parameters=dict.fromkeys(LIBPQ, str),
    subscription_parameters=dict.fromkeys((*LIBPQ, "queue", "group"), str),
    secrets=SECRETS,
)
