"""Runs `async def test_…` functions: each on an event loop of its own, made and closed by the test's call.

`tests/conftest.py` imports the hook:

    from tests.conftest_async import pytest_pyfunc_call as pytest_pyfunc_call

Fixtures stay synchronous; what must be awaited is opened inside the test (`async with connect(url) as tl:`),
so that the same test, converted, is its sync twin's. A `@given` test gets a new loop for each example.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a coroutine test to its end; leave every other test to pytest."""
    test = pyfuncitem.obj
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", None)
    if inspect.iscoroutinefunction(inner):
        test.hypothesis.inner_test = _blocking(inner)
    elif inspect.iscoroutinefunction(test):
        test = _blocking(test)
    else:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


def _blocking(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
