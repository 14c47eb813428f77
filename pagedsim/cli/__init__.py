"""The command line: parse, call, print. A file a command.

A user's mistake ends with ``error: …`` on standard error and exit code 2, an interrupt with 130,
a reader of the output that went away with 141 (as a shell says it); in none of these cases is
anything half-written. Mistakes are looked for in one order: in the words, in files that are to be
written, in files that are read. Exit code 1 is `verify`'s answer that something differs, `check`'s
that a law is broken, and `sweep`'s that a run failed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from pagedsim import __version__
from pagedsim.cli.listing import Listing
from pagedsim.cli.values import UsageError
from pagedsim.errors import PagedsimError


class Group(Listing):
    """Turns errors that a user can put right into a line, whichever command they come from."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        with _said():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with _said():
            return super().invoke(ctx)


@contextmanager
def _said() -> Iterator[None]:
    """Errors become a line and an exit code."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except PagedsimError as error:
        raise _exit(2, f"error: {error}") from None
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise _exit(2, _usage(error)) from None
    except KeyboardInterrupt:
        raise _exit(130, "interrupted") from None
    except BrokenPipeError:
        _silence()
        raise _exit(141, "") from None
    except OSError as error:
        _silence()
        place = f"{error.filename}: " if error.filename else ""
        raise _exit(2, f"error: {place}{error.strerror or error}") from None
    except MemoryError:
        raise _exit(2, "error: out of memory; give fewer requests (--limit)") from None


def _exit(code: int, text: str) -> typer.Exit:
    if text and sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)
    return typer.Exit(code)


def _silence() -> None:
    """What is still buffered for standard output goes nowhere, or Python complains at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any) -> str:
    """What is wrong, and what there is instead."""
    text = str(error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return f"error: {text}"
    close = getattr(error, "possibilities", None)
    kind = type(error).__name__
    if kind == "NoSuchOption" and not close:
        names = [p.opts[0] for p in context.command.params if p.opts[0].startswith("-")]
        text += f"; there are {', '.join(sorted(names))}"
    elif text.startswith("No such command"):
        text += f"; there are {', '.join(context.command.list_commands(context))}"
    return f"error: {text[:1].lower()}{text[1:]}\nSee: {context.command_path} --help"


app = typer.Typer(
    cls=Group,
    help="How a language-model server's KV cache is allocated, simulated exactly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pagedsim {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


def _register() -> None:
    from pagedsim.cli import (
        check,
        curve,
        fit,
        lesson,
        map,
        paper,
        plan,
        replay,
        size,
        sweep,
        trace,
        verify,
        whatif,
    )

    app.command("check")(check.check)
    app.command("compare")(replay.compare)
    app.command("curve")(curve.curve)
    app.command("fit")(fit.fit)
    app.command("field")(paper.field)
    app.command("lesson")(lesson.lesson)
    app.command("map")(map.map_)
    app.command("paper")(paper.paper)
    app.command("plan")(plan.plan)
    app.command("replay")(replay.replay)
    app.command("size")(size.size)
    app.command("verify")(verify.verify)
    app.command("whatif")(whatif.whatif)
    app.add_typer(sweep.app, name="sweep")
    app.add_typer(trace.app, name="trace")


_register()


def main() -> None:
    """The console script. Parts of the user's own are found in the current folder too."""
    sys.path.append("")
    app(prog_name="pagedsim")


__all__ = ["app", "main"]
