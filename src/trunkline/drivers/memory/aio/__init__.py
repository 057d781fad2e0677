"""The memory driver, for asyncio."""
