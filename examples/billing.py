"""Orders become bills; what cannot be billed is put away, and told.

trunkline dev --detach
python billing.py            # makes the topics, and publishes some orders
trunkline run billing:app    # as often as you like, until Ctrl-C
"""

from __future__ import annotations

import json
import random

import trunkline

app = trunkline.App()
settings = trunkline.HandlerSettings(max_attempts=3, retry_first_s=0.1)


@app.on("orders", group="billing", concurrency=8, dead_letter="orders.dead", create=True, settings=settings)
def bill(record: trunkline.Record) -> None:
    """One bill an order. Orders of one customer are billed in their order, those of many side by side."""
    order = json.loads(record.payload)
    if order["amount"] < 0:
        raise ValueError(f"a customer cannot be billed {order['amount']}")
    app.client.publish("bills", json.dumps({"bill": order["amount"]}).encode(), key=record.key)


@app.on("orders.dead", group="billing", create=True)
def tell(record: trunkline.Record) -> None:
    """Say which orders were put away, and why."""
    told = {name: value.decode() for name, value in record.headers}
    print(f"order {told['trunkline-dl-offset']} was not billed: {told['trunkline-dl-reason']}", flush=True)


def main() -> None:
    with trunkline.connect() as tl:
        for topic in ("orders", "orders.dead", "bills"):
            tl.create_topic(topic, partitions=4)
        amounts = [*(random.randrange(1, 100) for _ in range(99)), -1]
        orders = [json.dumps({"amount": amount}).encode() for amount in amounts]
        customers = [f"customer-{number % 20}" for number in range(len(orders))]
        tl.publish_many("orders", map(trunkline.Message, orders, customers))


if __name__ == "__main__":
    main()
