"""The converter of async sources into sync twins: every rule of its docstring, and every refusal."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tools import async_to_sync, twins


def converted(text: str) -> str:
    return async_to_sync.convert(textwrap.dedent(text).lstrip("\n"))


def finished(text: str) -> str:
    return twins.twin_text(textwrap.dedent(text).lstrip("\n"), "a/x.py", "src/trunkline/client/sync/x.py")


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("async def f(): pass", "def f(): pass"),
        ("x = await f()", "x = f()"),
        ("async with a() as b, c(): pass", "with a() as b, c(): pass"),
        ("async for x in y: pass", "for x in y: pass"),
        ("z = [x async for x in y if await x]", "z = [x for x in y if x]"),
        ("z = await asked ** 2", "z = asked ** 2"),
        ("return_value = not await f()", "return_value = not f()"),
        ("x = (await\n     f())", "x = (\n     f())"),
        ("try: ...\nexcept StopAsyncIteration: ...", "try: ...\nexcept StopIteration: ..."),
        ("class C(AsyncIterator[AsyncClient]): ...", "class C(Iterator[Client]): ..."),
        ("await s.aclose()", "s.close()"),
        ("r = await anext(aiter(x))", "r = next(iter(x))"),
    ],
)
def test_waiting_disappears_and_names_change(source: str, twin: str) -> None:
    assert converted(source) == twin


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("(await f()).x", "f().x"),
        ("x = (await f(1, [2]))[0].y", "x = f(1, [2])[0].y"),
        ("assert (await f()) == 1", "assert f() == 1"),
        ("if not (await f()): pass", "if not f(): pass"),
        ("g(await f())", "g(f())"),
        ("g((await f()), 1)", "g(f(), 1)"),
        ("x = (await f(), 2)", "x = (f(), 2)"),
        ("x = (await f() or y).z", "x = (f() or y).z"),
        ("x = -(await f())", "x = -f()"),
        ("for x in (await f()): pass", "for x in f(): pass"),
        ("t = f[0](await g())", "t = f[0](g())"),
    ],
)
def test_parentheses_go_only_where_nothing_else_needs_them(source: str, twin: str) -> None:
    assert converted(source) == twin


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("from trunkline.client.aio.log import read", "from trunkline.client.sync.log import read"),
        ("from trunkline.aio import connect", "from trunkline import connect"),
        ("tl = trunkline.aio.connect()", "tl = trunkline.connect()"),
        ("import trunkline.aio", "import trunkline"),
        ("from tests.aio.support import log", "from tests.sync.support import log"),
        ("from trunkline.client.aiops import x", "from trunkline.client.aiops import x"),
        ("x = self.trunkline.aiox", "x = self.trunkline.aiox"),
    ],
)
def test_modules_change_as_whole_dotted_names(source: str, twin: str) -> None:
    assert converted(source) == twin


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("f: Callable[[int], Awaitable[None]]", "f: Callable[[int], None]"),
        ("f: Awaitable[list[AsyncClient]]", "f: list[Client]"),
        ("f: Coroutine[Any, Any, dict[str, int]]", "f: dict[str, int]"),
    ],
)
def test_wrappers_of_results_vanish_from_types(source: str, twin: str) -> None:
    assert converted(source) == twin


def test_strings_stay_unless_they_are_names() -> None:
    source = """
        __all__ = ["AsyncClient", "aclose"]
        message = "await the AsyncClient, then aclose"
        path = "trunkline.client.aio.log.read"
        raw = r"await x()"
        shown = f"await {message!r} of AsyncClient"
        """
    assert converted(source) == textwrap.dedent("""\
        __all__ = ["Client", "close"]
        message = "await the AsyncClient, then aclose"
        path = "trunkline.client.sync.log.read"
        raw = r"await x()"
        shown = f"await {message!r} of AsyncClient"
        """)


def test_docstrings_and_comments_change_where_they_quote_code() -> None:
    source = '''
        """Use `async with trunkline.aio.connect() as tl: await tl.publish(...)`. Callers await a reply."""
        # `await self.aclose()` comes first; we await nothing.
        class C:
            size: int
            """See AsyncClient."""
        '''
    assert converted(source) == textwrap.dedent('''\
        """Use `with trunkline.connect() as tl: tl.publish(...)`. Callers await a reply."""
        # `self.close()` comes first; we await nothing.
        class C:
            size: int
            """See Client."""
        ''')


def test_the_special_form_keeps_its_other_half_dedented() -> None:
    source = '''
        def f():
            before()
            if True:  # ASYNC
                one()
            else:
                # a reason
                text = """first
                second"""
                if text:
                    two()
            after()
        '''
    assert converted(source) == textwrap.dedent('''\
        def f():
            before()
            # a reason
            text = """first
                second"""
            if text:
                two()
            after()
        ''')


def test_the_special_form_without_else_leaves_nothing_or_pass() -> None:
    source = """
        if True:  # ASYNC
            import asyncio

        async def f():
            if True:  # ASYNC
                await asyncio.sleep(0)
        """
    assert converted(source) == "\ndef f():\n    pass\n"


def test_special_forms_nest_and_repeat() -> None:
    source = """
        if True:  # ASYNC
            a = 1
        else:
            if True:  # ASYNC
                a = 2
            else:
                a = 3
        if True:  # ASYNC
            b = 1
        else:
            b = 2
        """
    assert converted(source) == "a = 3\nb = 2\n"


def test_an_ordinary_condition_is_left_alone() -> None:
    assert converted("if True:\n    a = 1\nelse:\n    a = 2\n") == "if True:\n    a = 1\nelse:\n    a = 2\n"


def test_text_that_is_not_ascii_keeps_its_places() -> None:
    assert converted("x = 'größer → ∞'; y = await f('é', await g())  # – AsyncClient\n") == (
        "x = 'größer → ∞'; y = f('é', g())  # – Client\n"
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("async def f():\n    return f'{await g()}'", "x.py:2: no await inside an f-string"),
        ("async def f():\n    return f'{[x async for x in y]}'", "no async for inside an f-string"),
        ("x = f'{AsyncClient.__name__}'", "no AsyncClient inside an f-string"),
        ("x = f'{trunkline.aio.connect}'", "no aio inside an f-string"),
        ("if x:  # ASYNC\n    pass", "only after `if True:`"),
        ("if True:  # ASYNC\n    pass\nelif y:\n    pass", "x.py:3: no elif"),
        ("import asyncio\nasyncio.sleep(1)", "still say `asyncio`"),
        ("from trunkline import aio\naio.connect()", "still say `aio`"),
        ("class AsyncThing: ...", "add the name to NAMES"),
    ],
)
def test_what_would_go_wrong_is_refused_with_its_place(source: str, reason: str) -> None:
    with pytest.raises(async_to_sync.TwinError) as raised:
        twins.twin_text(source, "x.py", "src/trunkline/client/sync/x.py")
    assert reason in str(raised.value)


def test_imports_are_sorted_and_pruned_and_the_text_is_formatted() -> None:
    source = """
        import asyncio
        from contextlib import asynccontextmanager, AsyncExitStack
        from collections.abc import AsyncIterator, Awaitable, Callable

        def f(
            a: Callable[[], Awaitable[int]]) -> AsyncIterator[AsyncExitStack]: ...
        """
    assert finished(source) == textwrap.dedent("""\
        # Generated from a/x.py by tools/twins.py (make fix). Change the source, not this file.
        from collections.abc import Callable, Iterator
        from contextlib import ExitStack


        def f(a: Callable[[], int]) -> Iterator[ExitStack]: ...
        """)


def test_a_twin_of_a_twin_is_the_same() -> None:
    once = finished("async def f():\n    async with g() as x:\n        await x.aclose()\n")
    assert twins.twin_text(once.split("\n", 1)[1], "a/x.py", "src/trunkline/client/sync/x.py") == once


@pytest.fixture
def project(tmp_path: Path) -> Path:
    source = tmp_path / "tests" / "aio"
    source.mkdir(parents=True)
    (source / "test_a.py").write_text("async def test_a():\n    await f()\n")
    (source / "conftest.py").write_text("import asyncio\n\nasyncio.run\n")
    return tmp_path


def test_writing_makes_twins_and_the_check_is_content(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert twins.main(["--check"], project) == 1
    assert "missing: tests/sync/test_a.py" in capsys.readouterr().out
    assert twins.main([], project) == 0
    assert (project / "tests/sync/test_a.py").read_text().endswith("\ndef test_a():\n    f()\n")
    assert twins.main(["--check"], project) == 0
    assert not (project / "tests/sync/conftest.py").exists()


def test_the_check_lists_stale_orphaned_and_hand_made(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twins.main([], project)
    sync = project / "tests/sync"
    (sync / "test_a.py").write_text((sync / "test_a.py").read_text() + "# more\n")
    (sync / "test_gone.py").write_text(twins.HEADER.format(source="x"))
    (sync / "test_mine.py").write_text("x = 1\n")
    capsys.readouterr()
    assert twins.main(["--check"], project) == 1
    listed = capsys.readouterr().out.splitlines()
    assert listed[:3] == [
        "stale: tests/sync/test_a.py",
        "orphaned: tests/sync/test_gone.py",
        "hand-made: tests/sync/test_mine.py",
    ]
    assert twins.main([], project) == 1
    assert not (sync / "test_gone.py").exists()
    assert (sync / "test_mine.py").exists()
    assert "more" not in (sync / "test_a.py").read_text()


def test_a_source_that_cannot_be_read_ends_the_run_with_its_place(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests/aio/test_a.py").write_text("async def test_a(:\n")
    assert twins.main([], project) == 1
    assert "test_a.py" in capsys.readouterr().err
