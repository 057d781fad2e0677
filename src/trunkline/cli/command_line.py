"""The outermost group: what becomes of errors and signals, for every command alike."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click

from trunkline.cli import exits
from trunkline.errors import TrunklineError

ENDING = (signal.SIGTERM, signal.SIGHUP)


class _Ended(BaseException):
    """A signal came. Not an Exception, so that whatever is open is closed on the way out, and nothing catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class CommandLine(click.Group):
    """Ends every command with one line on stderr and a documented exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _signals_end_well():
                super().invoke(ctx)
                sys.stdout.flush()
        except TrunklineError as error:
            click.echo(f"error [{error.code}]: {error}", err=True)
            ctx.exit(exits.exit_code_of(type(error)))
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(exits.CLOSED_PIPE)
        except OSError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(exits.FAILURE)
        except KeyboardInterrupt:
            ctx.exit(exits.INTERRUPTED)
        except _Ended as signalled:
            ctx.exit(signalled.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """In the order in which they were added, which is the order in which they are met."""
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in exits.MEANINGS.items()])


@contextmanager
def _signals_end_well() -> Iterator[None]:
    # What is ignored stays ignored: so it is under nohup.
    chosen = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _end) for number in chosen}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _end(number: int, _: FrameType | None) -> NoReturn:
    # A second one means now.
    signal.signal(number, signal.SIG_DFL)
    raise _Ended(number)


def _forget_stdout() -> None:
    """Whatever is left to write goes nowhere; at exit Python would complain about it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
