# Generated from src/trunkline/drivers/postgres/aio/__init__.py by tools/twins.py (make fix). Change the source, not this file.
"""The Postgres driver, for asyncio."""
