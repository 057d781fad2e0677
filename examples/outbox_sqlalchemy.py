"""An order and its event in one transaction, with a session of SQLAlchemy: both are there, or neither.

trunkline dev --detach
export TRUNKLINE_URL=$(trunkline dev status --url)
python outbox_sqlalchemy.py
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from sqlalchemy import CheckConstraint, create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import trunkline


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = (CheckConstraint("amount > 0"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int]


def place_order(tl: trunkline.Client, session: Session, amount: int) -> None:
    """The session's commit makes both visible, and wakes readers."""
    event = json.dumps({"amount": amount}).encode()
    tl.publish("orders.placed", event, headers={"source": "web"}, conn=session)
    session.add(Order(amount=amount))
    session.commit()


def main() -> None:
    url = os.environ["TRUNKLINE_URL"].replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    with trunkline.connect() as tl, Session(engine) as session:
        with suppress(trunkline.errors.AlreadyExists):
            tl.create_topic("orders.placed")
        place_order(tl, session, 12)
        try:
            place_order(tl, session, -1)
        except IntegrityError as error:
            session.rollback()
            print(str(error.orig).splitlines()[0])
        print("rows:  ", session.scalars(select(Order.amount)).all())
        print("events:", [record.payload.decode() for record in tl.read("orders.placed")])
    engine.dispose()


if __name__ == "__main__":
    main()
