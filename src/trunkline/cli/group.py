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


class _Terminated(BaseException):
    """SIGTERM came. Not an Exception, so that whatever is open is closed on the way out, and nothing catches it."""


class CommandLine(click.Group):
    """Ends every command with one line on stderr and a documented exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _sigterm_ends_well():
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
        except _Terminated:
            ctx.exit(exits.TERMINATED)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in exits.MEANINGS.items()])


@contextmanager
def _sigterm_ends_well() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    # A second one means now.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _Terminated


def _forget_stdout() -> None:
    """Whatever is left to write goes nowhere; at exit Python would complain about it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
