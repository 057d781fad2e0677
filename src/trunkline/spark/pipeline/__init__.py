"""Pipelines: a short file says which topic, which SQL and where to; one command runs it as Structured Streaming."""
