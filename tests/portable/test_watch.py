"""The watch over a driver's calls, which is kept from one call to the next. It is asyncio's: threads have none."""

from __future__ import annotations

import asyncio

import pytest

from trunkline.portable.aio.shim import Watch

FOR_EVER_S = 3_600.0
SHORT_S = 0.02
GUARD_S = 30.0


def test_a_call_with_less_time_than_the_last_one_is_ended_when_its_own_is_over() -> None:
    """Nothing is left of the time that the others had, whichever came first."""

    async def watched() -> None:
        watch = Watch(FOR_EVER_S)
        for _ in range(2):
            for timeout_s in (FOR_EVER_S, SHORT_S / 2, FOR_EVER_S):
                watch.timeout_s = timeout_s
                with watch:
                    pass
            watch.timeout_s = SHORT_S
            with pytest.raises(TimeoutError), watch:
                await asyncio.sleep(FOR_EVER_S)
        watch.close()

    asyncio.run(asyncio.wait_for(watched(), GUARD_S))


def test_a_call_with_more_time_than_the_last_one_is_not_ended_when_that_ones_is_over() -> None:
    async def watched() -> None:
        watch = Watch(SHORT_S)
        with watch:
            pass
        watch.timeout_s = FOR_EVER_S
        looked = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * SHORT_S, looked.set)
        with watch:
            await looked.wait()
        watch.close()

    asyncio.run(asyncio.wait_for(watched(), GUARD_S))
