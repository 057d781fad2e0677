"""Hands: the connections of a client and what it does with them. Async is written, sync is generated."""
