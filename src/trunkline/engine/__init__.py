"""What the client decides, and nothing that it does: pure functions and values, no sockets, no clock."""
