"""A job in numbered batches, as Spark runs one, without Spark: stages each batch, publishes it, notes that it is done.
Started as a process of its own by tests, killed, and started again.

Arguments: the server's URL, the file that is its checkpoint, and how many batches there are.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from uuid import uuid4

from trunkline.client.arrays import bytea_array
from trunkline.errors import StageLost
from trunkline.spark.database import Database, Identity

PARTITIONS = 2
PUTS = 80
RECORDS_MAX = 3


def payloads(batch_id: int, partition: int) -> list[list[bytes]]:
    """The records of a batch for a partition, as they are put: the same each time, and numbered."""
    chance = random.Random(batch_id * PARTITIONS + partition)
    counts = [chance.randint(1, RECORDS_MAX) for _ in range(PUTS // PARTITIONS)]
    names = (b"%d/%d/%d" % (batch_id, partition, n) for n in range(sum(counts)))
    return [[next(names) for _ in range(count)] for count in counts]


def stage(database: Database, batch_id: int) -> dict[int, int]:
    """One stage a partition, as of one task each; sometimes of an attempt before, which nobody asks about again."""
    topic = database.topics.look_up("t")
    staged = {}
    for partition in range(PARTITIONS):
        if random.random() < 0.2:
            database.put(database.open_stage(), 1, topic, partition, 1, [None, bytea_array([b"zombie"]), *[None] * 3])
        number = database.open_stage()
        batches = payloads(batch_id, partition)
        for ordinal, batch in enumerate(batches, start=1):
            database.put(number, ordinal, topic, partition, len(batch), [None, bytea_array(batch), *[None] * 3])
        staged[number] = sum(map(len, batches))
    return staged


def main(url: str, checkpoint: Path, batches: int) -> None:
    database, run_id = Database(url), uuid4().hex
    topic_id = database.topics.look_up("t").topic_id
    for batch_id in range(int(checkpoint.read_text()) if checkpoint.exists() else 0, batches):
        while True:
            staged = stage(database, batch_id)
            try:
                database.publish(
                    Identity("job", "s", batch_id, run_id),
                    stage_nos=list(staged),
                    record_counts=list(staged.values()),
                    topic_ids={topic_id},
                )
                break
            except StageLost as error:
                # The server has crashed, and nothing was published: as Spark's query would be, it is run again.
                print(error, flush=True)
        written = checkpoint.with_suffix(".new")
        written.write_text(str(batch_id + 1))
        written.replace(checkpoint)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
