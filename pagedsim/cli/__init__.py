"""The command line: parse, call, print. A file a command.

A user's mistake (`PagedsimError`) ends with ``error: …`` on standard error and exit code 2, an
interrupt with 130; in neither case is anything half-written.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pagedsim import __version__
from pagedsim.errors import PagedsimError


class Group(TyperGroup):
    """Turns errors that a user can put right into a line, whichever command they come from."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PagedsimError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(130) from None


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
    from pagedsim.cli import replay, size, trace, verify

    app.command("compare")(replay.compare)
    app.command("replay")(replay.replay)
    app.command("size")(size.size)
    app.command("verify")(verify.verify)
    app.add_typer(trace.app, name="trace")


_register()


def main() -> None:
    """The console script."""
    app()


__all__ = ["app", "main"]
