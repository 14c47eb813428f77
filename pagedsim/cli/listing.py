"""Help of a group of commands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Listing(TyperGroup):
    """Says in full what each command does, on as many lines as that takes; typer cuts it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(1000))
                    for name, command in self.commands.items()
                ]
            )


__all__ = ["Listing"]
