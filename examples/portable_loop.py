"""Handle messages one after the other, until Ctrl-C.

python portable_loop.py 'trunkline://localhost:5432/shop/signups?queue=minder'
"""

from __future__ import annotations

import os
import sys

import trunkline


def main(url: str) -> None:
    with trunkline.open_subscription(url) as subscription:
        try:
            for message in subscription:
                print(f"got {message.body.decode()}", flush=True)
                message.ack()
        except KeyboardInterrupt:
            # What was in hand and is not acknowledged comes again; what lay ready in memory is given back at once.
            print("Ctrl-C: the end")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["SIGNUPS_SUBSCRIPTION"])
