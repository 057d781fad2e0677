"""URLs of the Postgres driver, made of those of databases."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit


def place(db_url: str, topic: str, **parameters: str) -> str:
    """``trunkline://…/db/topic?…`` for a topic of a database."""
    parts = urlsplit(db_url)
    query = "&".join(filter(None, [parts.query, urlencode(parameters)]))
    return f"trunkline://{parts.netloc}{parts.path}/{topic}" + (f"?{query}" if query else "")
