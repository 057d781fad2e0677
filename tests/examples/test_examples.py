"""Examples run, as their first lines say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import trunkline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COMMAND = (sys.executable, "-c", "from trunkline.cli.main import main; main()")
DEADLINE_S = 90.0


def test_billing_bills_all_orders_but_one_and_says_why(db_url: str) -> None:
    source = str(Path(trunkline.__file__).parents[1])
    environment = {**os.environ, "TRUNKLINE_URL": db_url, "PYTHONPATH": source}
    subprocess.run([sys.executable, "billing.py"], cwd=EXAMPLES, env=environment, check=True, timeout=DEADLINE_S)
    running = subprocess.Popen(
        [*COMMAND, "run", "billing:app"], cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline().endswith(b"was not billed: ValueError: a customer cannot be billed -1\n")
        with trunkline.connect(db_url) as tl:
            while sum(log.end - log.start for log in tl.offsets("bills")) < 99:
                assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=DEADLINE_S)
        assert running.returncode == 0, said
    finally:
        running.kill()
        running.communicate()
