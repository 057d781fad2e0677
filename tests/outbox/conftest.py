"""Seeds that are printed and servers that may be killed, as in tests/concurrency."""

from __future__ import annotations

from tests.concurrency.conftest import seed as seed
from tests.concurrency.conftest import start_server as start_server
