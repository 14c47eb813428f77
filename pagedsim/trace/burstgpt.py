"""BurstGPT: ``Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type``.

Seconds from the file's own zero, lengths only. Failed requests have 0 response tokens; they are
rows with zero output like any others. The model's name is not kept.
"""

from __future__ import annotations

from pagedsim.trace.fields import Field, tokens
from pagedsim.trace.rows import kept, own_zero
from pagedsim.trace.table import Table
from pagedsim.trace.trace import Trace

COLUMNS = (
    Field("Timestamp", "seconds"),
    tokens("Request tokens"),
    tokens("Response tokens"),
)


def read(table: Table) -> Trace:
    """The trace. Raises InputError."""
    source = table.source
    arrival, prompt, output = table.columns(COLUMNS)
    keep = kept(source, ("Request tokens", prompt), ("Response tokens", output), table.line)
    arrival, notes = own_zero(arrival[keep.rows], keep.notes)
    return Trace.build(
        source.name,
        arrival,
        prompt[keep.rows],
        output[keep.rows],
        format="burstgpt",
        notes=notes,
        dropped=keep.dropped,
        sha256=source.sha256,
    )


__all__ = ["COLUMNS", "read"]
