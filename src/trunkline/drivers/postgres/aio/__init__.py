"""The Postgres driver, for asyncio."""
