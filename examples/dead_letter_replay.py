"""Dead letters go back to where they came from: those with one reason, once, however often this is run.

trunkline dev --detach
python billing.py                      # see there: makes topics and orders
trunkline run billing:app              # until Ctrl-C: one order cannot be billed
python dead_letter_replay.py orders.dead ValueError 2026-11-16
"""

from __future__ import annotations

import sys

import trunkline
import trunkline.spark

REASON, ORIGIN = "trunkline-dl-reason", "trunkline-dl-topic"


def header(name: str) -> str:
    """The value of a header, as SQL."""
    return f"CAST(filter(headers, h -> h.key = '{name}')[0].value AS STRING)"


def main(dead_letters: str, reason: str, name: str) -> None:
    spark = trunkline.spark.session("dead letter replay")
    letters = spark.read.format("trunkline").option("subscribe", dead_letters).option("includeHeaders", "true").load()
    chosen = letters.where(f"{header(REASON)} LIKE '{reason}%'")
    kept = "filter(headers, h -> h.key NOT LIKE 'trunkline-dl-%') AS headers"
    back = chosen.selectExpr("key", "value", f"{header(ORIGIN)} AS topic", kept)
    count = back.count()
    # Under its name the write is done once: run again, it finds itself done.
    back.write.format("trunkline").option("writeId", f"replay-{dead_letters}-{name}").mode("append").save()
    print(f"{count} of {letters.count()} dead letters were sent back")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
