"""What the words of a result mean, in a sentence each; docs/model.md has the equations."""

from __future__ import annotations

from pagedsim.present.palette import MEANING

DEFINITIONS = {
    **{term: f"Slots that {words}." for term, words in MEANING.items()},
    "live": "Slots that hold the KV of a token of a running request; a shared slot counts once.",
    "reserved": "Slots that are held, empty now, and filled before the request finishes.",
    "internal": "Slots that are held and will never be filled by the request that holds them.",
    "external": "Slots that are free while the head of the queue is refused for want of memory, or"
    " lost in a buddy's rounding.",
    "padding": "Bytes of a block, held or cached, that a group of layers narrower than the widest"
    " leaves unused (models with groups of layers).",
    "outside": "Bytes that hold tokens which no layer of their group will read again (models with"
    " groups of layers).",
    "cached": "Slots that no running request owns but whose content is kept for reuse.",
    "idle": "Slots that are free while nobody is blocked.",
    "waste": "(reserved + internal + external, with groups of layers + padding + outside) / pool,"
    " averaged over the time in which steps run.",
    "waste of held": "(held − live) / held: an idle machine does not flatter it.",
    "batch": "Running sequences: mean over time, and the most at once.",
    "preemptions": "How many times a running sequence lost its slots and was computed again.",
    "hit rate": "Prompt tokens found in the cache at first admissions / prompt tokens.",
    "TTFT": "Time to first token: end of the step that yields it − arrival, of finished requests.",
    "TPOT": "Time per output token: (finish − first token) / (output − 1).",
    "E2E": "Finish − arrival, of finished requests.",
    "throughput": "Finished requests / (last finish − first arrival).",
    "waiting": "Requests that have arrived and were never admitted. What was preempted and waits"
    " again is not counted.",
    "p50, p90, p99": "Nearest rank: the value of a request (or, over time, of a step) that 50, 90"
    " or 99 % do not exceed.",
}

__all__ = ["DEFINITIONS"]
