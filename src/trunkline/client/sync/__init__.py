# Generated from src/trunkline/client/aio/__init__.py by tools/twins.py (make fix). Change the source, not this file.
"""The client, as it is written. The twin under ``trunkline.client.sync`` is generated from it."""
