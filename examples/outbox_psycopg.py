"""An order and its event in one transaction, with psycopg: both are there, or neither.

trunkline dev --detach
export TRUNKLINE_URL=$(trunkline dev status --url)
python outbox_psycopg.py
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

import psycopg

import trunkline

TABLE = "create table if not exists orders (id bigint generated always as identity primary key, amount integer)"


def place_order(tl: trunkline.Client, conn: psycopg.Connection[Any], amount: int) -> None:
    """Readers are woken when the block has committed. Whoever raises inside of it takes row and event back."""
    with tl.transaction(conn):
        row = conn.execute("insert into orders (amount) values (%s) returning id", [amount]).fetchone()
        assert row is not None
        event = {"order": row[0], "amount": amount}
        tl.publish("orders.placed", json.dumps(event).encode(), key=str(row[0]), conn=conn)
        if amount < 0:
            raise ValueError(f"an order of {amount} cannot be placed")


def main() -> None:
    with trunkline.connect() as tl, psycopg.connect(os.environ["TRUNKLINE_URL"], autocommit=True) as conn:
        conn.execute(TABLE)
        with suppress(trunkline.errors.AlreadyExists):
            tl.create_topic("orders.placed")
        place_order(tl, conn, 12)
        try:
            place_order(tl, conn, -1)
        except ValueError as error:
            print(error)
        print("rows:  ", conn.execute("select id, amount from orders").fetchall())
        print("events:", [record.payload.decode() for record in tl.read("orders.placed")])


if __name__ == "__main__":
    main()
