"""Runs an example on a memory broker, which has to be in the example's own process.

python on_memory.py EXAMPLE MESSAGES     # of the topic when it begins; says at the end what was left there
"""

from __future__ import annotations

import runpy
import sys

import trunkline
from trunkline.drivers.memory import MemoryBroker

TOPIC, SUBSCRIPTION = "signups", "minder"


def main(example: str, messages: int) -> None:
    with MemoryBroker() as broker:
        broker.create_topic(TOPIC)
        broker.create_subscription(TOPIC, SUBSCRIPTION)
        with trunkline.open_topic(broker.topic_url(TOPIC)) as topic:
            for number in range(messages):
                topic.send(f"user {number}".encode())
        sends = example.endswith("http.py")
        url = broker.topic_url(TOPIC) if sends else broker.subscription_url(TOPIC, SUBSCRIPTION)
        sys.argv = [example, url]
        runpy.run_path(example, run_name="__main__")
        print(f"left: {broker.waiting(TOPIC, SUBSCRIPTION)} waiting, {broker.held(TOPIC, SUBSCRIPTION)} held")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
