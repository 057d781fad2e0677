# Generated from src/trunkline/drivers/memory/aio/__init__.py by tools/twins.py (make fix). Change the source, not this file.
"""The memory driver, for asyncio."""
