"""Every contract a plug-in can meet, and the small values they exchange.

Words: a *request* is a row of the trace; a *sequence* is a request on the device; a *slot* is
room for the KV of one token; a *step* is one forward pass of the model. A sequence knows
`tokens` tokens (prompt + generated) and has `computed` of them stored; in a step it is given
`n` more, so its slots must cover `computed + n`::

    0           computed      computed + n      tokens
    |  stored   |   this step      |  later steps |        n = tokens - computed: it yields
                                                            one new token at the step's end

An allocator hands out slots, a scheduler says who gets how many tokens, a step-time model says
how long that takes, in integer nanoseconds. They meet here and nowhere else.

Mandatory methods come first; everything named ``Supports…`` is optional: missing means right but
slower, or less to see.

`sequence`, `memory`, `groups`, `time` and `schedule` hold one kind each; import from here.
"""

from __future__ import annotations

from pagedsim.protocols.groups import (
    GroupBlocks,
    LayerGroup,
    Narrow,
    Outside,
    SupportsForkedGroups,
    SupportsGroups,
    SupportsOutside,
    SupportsStates,
    token_bytes,
)
from pagedsim.protocols.memory import (
    Allocator,
    Future,
    SupportsBlocks,
    SupportsEvictions,
    SupportsExtend,
    SupportsFill,
    SupportsForesight,
    SupportsFork,
    SupportsHoles,
    SupportsKept,
    SupportsLost,
    SupportsSlots,
    Usage,
    evicted,
    headroom,
)
from pagedsim.protocols.schedule import (
    BatchView,
    Limit,
    Observer,
    Plan,
    Scheduler,
    SupportsBudget,
    SupportsHold,
    SupportsPlaces,
    SupportsRank,
    SupportsSteady,
    View,
    batched,
    fruitless_steps,
    nobody_scheduled,
    without_end,
)
from pagedsim.protocols.sequence import (
    Foreseen,
    Int64,
    Sequence,
    Stretched,
)
from pagedsim.protocols.time import (
    Load,
    StepTime,
    SupportsFew,
    SupportsMany,
    SupportsRamp,
)

__all__ = [
    "Allocator",
    "BatchView",
    "Foreseen",
    "Future",
    "GroupBlocks",
    "Int64",
    "LayerGroup",
    "Limit",
    "Load",
    "Narrow",
    "Observer",
    "Outside",
    "Plan",
    "Scheduler",
    "Sequence",
    "StepTime",
    "Stretched",
    "SupportsBlocks",
    "SupportsBudget",
    "SupportsEvictions",
    "SupportsExtend",
    "SupportsFew",
    "SupportsFill",
    "SupportsForesight",
    "SupportsFork",
    "SupportsForkedGroups",
    "SupportsGroups",
    "SupportsHold",
    "SupportsHoles",
    "SupportsKept",
    "SupportsLost",
    "SupportsMany",
    "SupportsOutside",
    "SupportsPlaces",
    "SupportsRamp",
    "SupportsRank",
    "SupportsSlots",
    "SupportsStates",
    "SupportsSteady",
    "Usage",
    "View",
    "batched",
    "evicted",
    "fruitless_steps",
    "headroom",
    "nobody_scheduled",
    "token_bytes",
    "without_end",
]
