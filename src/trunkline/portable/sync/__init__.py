# Generated from src/trunkline/portable/aio/__init__.py by tools/twins.py (make fix). Change the source, not this file.
"""Topics and subscriptions of any broker, for asyncio."""
