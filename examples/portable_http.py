"""An HTTP handler that sends a message through whatever broker a URL names.

export SIGNUPS_TOPIC=trunkline://localhost:5432/shop/signups
python portable_http.py                  # two requests, and what became of them
uvicorn portable_http:app                # or as a server
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

import trunkline.aio
from trunkline import Message, errors


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One topic for the whole application: requests at the same time share batches."""
    async with trunkline.aio.open_topic(os.environ["SIGNUPS_TOPIC"]) as signups:
        app.state.signups = signups
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/signups/{user}", status_code=202)
async def sign_up(user: str, request: Request) -> dict[str, str]:
    """Answers when the broker has the message, durably."""
    message = Message(f"{user} signed up".encode(), key=user, attributes={"source": "web"})
    try:
        return {"message": await request.app.state.signups.send(message)}
    except errors.InvalidArgument as error:
        raise HTTPException(422, str(error)) from None
    except errors.TrunklineError as error:
        raise HTTPException(503 if error.retryable else 500, str(error)) from None


def main() -> None:
    if len(sys.argv) > 1:
        os.environ["SIGNUPS_TOPIC"] = sys.argv[1]
    with TestClient(app) as http:
        for user in ("ann", "bob"):
            answer = http.post(f"/signups/{user}")
            print(answer.status_code, answer.json())


if __name__ == "__main__":
    main()
