"""Receive one message, and acknowledge it.

python portable_receive.py 'trunkline://localhost:5432/shop/signups?queue=minder'
"""

from __future__ import annotations

import os
import sys

import trunkline


def main(url: str) -> None:
    with trunkline.open_subscription(url) as subscription:
        message = subscription.receive()
        print(f"got {message.body.decode()}")
        message.ack()
        # Here it is acknowledged durably. Without it somebody gets the message again.
        print("acknowledged")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["SIGNUPS_SUBSCRIPTION"])
