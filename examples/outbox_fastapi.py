"""A FastAPI application: a request writes an order and publishes its event, or does neither.

trunkline dev --detach
export TRUNKLINE_URL=$(trunkline dev status --url)
python outbox_fastapi.py              # two requests, and what became of them
uvicorn outbox_fastapi:app            # or as a server
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

import trunkline.aio
from trunkline import errors

TABLE = text("create table if not exists orders (id integer primary key, amount integer)")
INSERT = text("insert into orders values (:id, :amount)")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client and one engine for the whole application."""
    engine = create_async_engine(os.environ["TRUNKLINE_URL"].replace("postgresql://", "postgresql+asyncpg://"))
    async with trunkline.aio.connect() as tl, engine.begin() as conn:
        await conn.execute(TABLE)
        await conn.commit()
        with suppress(errors.AlreadyExists):
            await tl.create_topic("orders.placed")
        app.state.tl, app.state.sessions = tl, async_sessionmaker(engine)
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
async def place_order(number: int, amount: int, request: Request) -> dict[str, int]:
    """The session's commit makes both visible, and wakes readers."""
    event = {"order": number, "amount": amount}
    async with request.app.state.sessions() as session:
        await request.app.state.tl.publish("orders.placed", json.dumps(event).encode(), key=str(number), conn=session)
        try:
            await session.execute(INSERT, {"id": number, "amount": amount})
        except IntegrityError:
            raise HTTPException(409, f"there is an order {number} already") from None
        await session.commit()
    return event


@app.get("/events")
async def events(request: Request) -> list[str]:
    return [record.payload.decode() for record in await request.app.state.tl.read("orders.placed")]


def main() -> None:
    with TestClient(app) as http:
        for amount in (12, 7):
            print(http.post("/orders/1", params={"amount": amount}).json())
        print("events:", http.get("/events").json())


if __name__ == "__main__":
    main()
