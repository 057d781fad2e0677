"""A Django application in one file: a request writes an order and publishes its event, or does neither.

trunkline dev --detach
export TRUNKLINE_URL=$(trunkline dev status --url)
python outbox_django.py               # two requests, and what became of them
python outbox_django.py runserver     # or as a server
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from contextlib import suppress

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import connection, models
from django.http import HttpRequest, JsonResponse
from django.test import Client
from django.urls import path
from psycopg.conninfo import conninfo_to_dict

import trunkline

at = conninfo_to_dict(os.environ["TRUNKLINE_URL"])
database = {
    "NAME": at["dbname"],
    "USER": at["user"],
    "PASSWORD": at["password"],
    "HOST": at["host"],
    "PORT": at["port"],
}
settings.configure(
    # A request is a transaction: what its view writes and publishes is committed with the response.
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "ATOMIC_REQUESTS": True, **database}},
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=secrets.token_hex(),
)
django.setup()

tl = trunkline.connect()


class Order(models.Model):  # type: ignore[misc]
    amount = models.IntegerField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


def place_order(request: HttpRequest) -> JsonResponse:
    """Django's on_commit wakes the readers."""
    order = Order.objects.create(amount=int(request.GET["amount"]))
    event = {"order": order.id, "amount": order.amount}
    tl.publish("orders.placed", json.dumps(event).encode(), key=str(order.id), conn=connection)
    if order.amount < 0:
        raise ValueError(f"an order of {order.amount} cannot be placed")
    return JsonResponse(event)


urlpatterns = [path("orders", place_order)]


def main() -> None:
    if "orders" not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Order)
    with suppress(trunkline.errors.AlreadyExists):
        tl.create_topic("orders.placed")
    if len(sys.argv) > 1:
        execute_from_command_line(sys.argv)
        return
    browser = Client(raise_request_exception=False)
    print([browser.get(f"/orders?amount={amount}").status_code for amount in (12, -1)])
    print("rows:  ", list(Order.objects.values_list("amount", flat=True)))
    print("events:", [record.payload.decode() for record in tl.read("orders.placed")])


if __name__ == "__main__":
    with tl:
        main()
