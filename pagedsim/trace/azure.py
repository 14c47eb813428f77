"""Azure LLM inference traces, 2023 and 2024: ``TIMESTAMP,ContextTokens,GeneratedTokens``.

Dates are absolute with up to seven fractional digits (a tick is 100 ns), kept exactly and counted
from the earliest; 2024's carry ``+00:00`` and are not sorted. Lengths only, so no content.
"""

from __future__ import annotations

from pagedsim.trace.fields import Field, tokens
from pagedsim.trace.rows import kept, since_first
from pagedsim.trace.table import Table
from pagedsim.trace.trace import Trace

COLUMNS = (
    Field("TIMESTAMP", "date"),
    tokens("ContextTokens"),
    tokens("GeneratedTokens"),
)


def read(table: Table) -> Trace:
    """The trace. Raises InputError."""
    source = table.source
    arrival, prompt, output = table.columns(COLUMNS)
    keep = kept(source, ("ContextTokens", prompt), ("GeneratedTokens", output), table.line)
    return Trace.build(
        source.name,
        since_first(arrival)[keep.rows],
        prompt[keep.rows],
        output[keep.rows],
        format="azure",
        notes=keep.notes,
        dropped=keep.dropped,
        sha256=source.sha256,
    )


__all__ = ["COLUMNS", "read"]
