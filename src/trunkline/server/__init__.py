"""A real PostgreSQL for development, tests and the demo.

``start()`` gives you a running server of your own: real binaries, a data directory, TCP on
127.0.0.1 with SCRAM and a random password, durability on. Two starts of one directory share one
server, in one process or in many. ``find()`` gives you the running one, or None, and starts nothing.
The server outlives the process that started it; ``Server.stop()`` ends it for everybody.

Importing this package starts nothing and opens nothing.
"""

from trunkline.server.embedded import Server, find, reset, start, stop

__all__ = ["Server", "find", "reset", "start", "stop"]
