"""The program of one copier: `python -m tests.outbox.copier '<task as JSON>'`.

It copies records from topic ``in`` to topic ``out``, to the same partitions, so many a transaction that also moves the
group on, until it is killed. What a crash of the server, or a partition that went to another copier, does to a
transaction, it takes as: nothing was written, or all of it; the group says where to go on.
"""

from __future__ import annotations

import sys
import traceback

import msgspec
import psycopg

import trunkline
from tests.groups.worker import Notes
from tests.outbox.application import patiently
from trunkline import ClientSettings, Message
from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.errors import Conflict, DeadlineExceeded, Fenced, OutcomeUnknown, TrunklineError, Unavailable

PASSING = (Conflict, DeadlineExceeded, Fenced, OutcomeUnknown, Unavailable, psycopg.OperationalError)
SETTINGS = ClientSettings(heartbeat_s=0.1, session_timeout_s=1.0, deadline_s=60.0, connect_timeout_s=5.0)


class Task(msgspec.Struct, frozen=True):
    """What one process is to do."""

    url: str
    log: str
    records: int


def copy(tl: Client, consumer: Consumer, task: Task, notes: Notes) -> None:
    """One transaction."""
    with consumer.transaction(task.records, wait_s=0.2) as tx:
        if not tx.records:
            return
        notes.write("copying", records=len(tx.records))
        messages = [Message(each.payload, key=each.key, partition=each.partition) for each in tx.records]
        tl.publish_many("out", messages, conn=tx.conn)
    notes.write("copied", records=len(tx.records))


def run(task: Task) -> None:
    notes = Notes(task.log)
    try:
        with patiently(lambda: trunkline.connect(task.url, settings=SETTINGS)) as tl:
            while True:
                try:
                    with tl.consumer("in", group="copy", delivery="exactly_once") as consumer:
                        notes.write("ready")
                        while True:
                            copy(tl, consumer, task, notes)
                except PASSING as error:
                    notes.write("passing", error=repr(error))
    except (TrunklineError, psycopg.Error, AssertionError):
        notes.write("failure", error=traceback.format_exc())
        raise


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Task))
