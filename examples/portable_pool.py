"""Handle ten messages at a time, until Ctrl-C; what is in hand then is handled, acknowledged, and nothing is lost.

The pool is inverted: no worker waits for messages. One task receives, and starts a worker for each message while fewer
than ten are at work.

python portable_pool.py 'trunkline://localhost:5432/shop/signups?queue=minder'
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import trunkline.aio
from trunkline import errors
from trunkline.portable import AsyncReceivedMessage, AsyncSubscription

POOL_SIZE = 10
MAIL_S = 0.01


async def handle(message: AsyncReceivedMessage, free: asyncio.Semaphore) -> None:
    try:
        print(f"begin {message.body.decode()}", flush=True)
        await asyncio.sleep(MAIL_S)  # the work: a mail that is sent
        await message.ack()
        print(f"done {message.body.decode()}", flush=True)
    except errors.TrunklineError as error:
        print(f"not acknowledged, so it comes again: {error}", flush=True)
    finally:
        free.release()


async def receive(subscription: AsyncSubscription, workers: asyncio.TaskGroup) -> None:
    free = asyncio.Semaphore(POOL_SIZE)
    while True:
        # First a free worker, then a message: nobody holds one that cannot be handled yet.
        await free.acquire()
        message = await subscription.receive()
        workers.create_task(handle(message, free))


async def main(url: str) -> None:
    async with trunkline.aio.open_subscription(url) as subscription, asyncio.TaskGroup() as workers:
        receiver = workers.create_task(receive(subscription, workers))
        # Ctrl-C ends receiving, not the workers: the group waits for them, and then the subscription is closed.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, receiver.cancel)
    print("Ctrl-C: all are done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ["SIGNUPS_SUBSCRIPTION"]))
