# Generated from src/trunkline/testing/aio/__init__.py by tools/twins.py (make fix). Change the source, not this file.
"""The conformance suite, for asyncio."""
