"""Drivers of the portable API, one room a broker. Each is imported when a URL asks for it."""
