"""The conformance suite, for asyncio."""
