"""A Django project in one file, for tests: settings, a model, views. Its database is whichever ``lead_to`` names."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

if not settings.configured:
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql", "ATOMIC_REQUESTS": True},
            "second": {"ENGINE": "django.db.backends.postgresql"},
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="of a test",
        USE_TZ=True,
        LOGGING_CONFIG=None,
    )
    django.setup()

from django.db import connections, models
from django.http import HttpRequest, HttpResponse
from django.urls import path


class Business(models.Model):  # type: ignore[misc]
    """A row of the application's."""

    id: Any = models.IntegerField(primary_key=True)

    class Meta:
        app_label = "business"
        db_table = "business"


def lead_to(url: str, alias: str = "default") -> None:
    """Let the connections of an alias lead to a database, in every thread that opens one from now on."""
    parts = conninfo_to_dict(url)
    connections[alias].close()
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    connections.settings[alias].update({name: parts[part] for name, part in names.items()}, OPTIONS={})


class Views:
    """What the views publish with; a test sets it."""

    client: Any = None


def order(request: HttpRequest, number: int) -> HttpResponse:
    """Under ATOMIC_REQUESTS: the request is the transaction."""
    Business.objects.create(id=number)
    Views.client.publish("orders", b"%d" % number, conn=connections["default"])
    if "fail" in request.GET:
        raise ZeroDivisionError
    return HttpResponse()


urlpatterns = [path("order/<int:number>", order)]
