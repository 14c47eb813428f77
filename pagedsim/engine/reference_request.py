"""Requests and their sequences as the reference engine follows them, and the columns they leave."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import numpy as np

from pagedsim.engine.recording import Refusal, Requests, Status
from pagedsim.engine.sampling import parts_samples
from pagedsim.protocols import Allocator, Int64, Scheduler, SupportsForkedGroups
from pagedsim.trace.content import Content, foresee
from pagedsim.trace.lineage import Members, members
from pagedsim.trace.samples import forking, no_forks, outputs
from pagedsim.trace.trace import Trace


class Inputs:
    """What all requests of a run are made from. Content is by member, in rows from `first`."""

    def __init__(
        self, trace: Trace, max_len: int, allocator: Allocator, scheduler: Scheduler
    ) -> None:
        self.trace, self.max_len = trace, max_len
        self.parts = parts_samples(trace, scheduler)  # whether one may be ahead of others
        self.block = getattr(allocator, "block", 1)
        grouped = isinstance(allocator, SupportsForkedGroups)
        self.together = allocator.together if grouped else None  # type: ignore[attr-defined]
        made = members(trace) if forking(trace) else Members(list(range(len(trace) + 1)), trace)
        self.first, self.content = made.first, Content(made.trace)
        self.outputs = outputs(trace).tolist()
        self.sample_at = [0, *np.cumsum(trace.samples).tolist()]
        self.forks = trace.forks or no_forks(len(trace))

    def foresee(self, allocator: Allocator, refused: list[int]) -> None:
        """Tell an allocator that asks for it what will be looked up."""
        foresee(allocator, self.content, self.trace.prompt, refused, self.first)


class Group:
    """A request: one sequence, or as many as it has samples; most often the first is all."""

    def __init__(self, inputs: Inputs, row: int) -> None:
        trace = inputs.trace
        self.inputs = inputs
        self.id = row
        self.prompt = int(trace.prompt[row])
        self.output = int(trace.output[row])
        self.priority = int(trace.priority[row])
        self.salt = int(trace.salt[row])
        self.arrival_ns = int(trace.arrival_ns[row])
        self.beam = int(trace.beam[row]) == 1
        self.forks = inputs.forks.of(row)
        count = int(trace.samples[row])
        lengths = inputs.outputs[inputs.sample_at[row] : inputs.sample_at[row + 1]]
        self.born = 0  # members so far
        self.members = [Request(self, length) for length in lengths]  # a place for each sample
        self.left = list(self.members)  # those that are not done
        self.split = count == 1  # whether each goes its own way
        self.common = self.prompt  # tokens that one computes for all before that
        self.held = 0  # members that are done, but not released
        self.admitted_ns = self.first_token_ns = self.finish_ns = -1
        self.hit = self.resumed_hit = self.preemptions = self.recomputed = 0

    def refusal(self, longest: int, capacity: int) -> Refusal | None:
        """Why it can never run."""
        final = max(member.final for member in self.members)
        if self.prompt >= self.inputs.max_len:
            return Refusal(self.id, "prompt", self.prompt, self.inputs.max_len - 1)
        if final > longest:
            return Refusal(self.id, "capacity", final, longest)
        if len(self.members) > 1 and self.slots > capacity:
            return Refusal(self.id, "capacity", self.slots, capacity)
        return None

    @property
    def slots(self) -> int:
        """The most that it needs when it is alone: of each full prompt block one is enough."""
        finals = [member.final for member in self.members]
        together = max(  # it is reached as one of them ends
            self._slots(self.prompt, [stored for final in finals if final >= stored])
            for stored in finals
        )
        if not self.inputs.parts:
            return together
        holding = [member.final for member in self.members if member.final > self.prompt]
        return max(together, self._slots(self.prompt, holding))  # one at its end waits for no other

    def asks(self, whole: int, spare: int) -> tuple[int, int]:
        """What to ask for, so that there is room for all that its samples know.

        As tokens of one sequence; with groups as slots beside those of one of `whole` tokens.
        """
        known = self._slots(self.common, [member.known for member in self.left])
        if self.inputs.together is not None:
            return whole, spare + known - int(self.inputs.together(0, [whole]))
        return max(whole, known), spare

    def _slots(self, alike: int, stored: list[int]) -> int:
        """Slots of whole blocks for so many tokens each, the first `alike` of them shared."""
        if self.inputs.together is not None:
            return int(self.inputs.together(alike, stored))
        block = self.inputs.block
        full = alike // block
        return block * (full + sum(-(-tokens // block) - full for tokens in stored))

    def rejoin(self) -> None:
        """All are preempted: what they know alike, as many as are left, is computed once."""
        self.split = len(self.left) == 1
        known = [member.content()[: member.known] for member in self.left]
        self.common = 0
        for alike in zip(*known, strict=False):
            if len(set(alike)) > 1:
                break
            self.common += 1

    @property
    def generated(self) -> int:
        return sum(member.known - self.prompt for member in self.members)

    @property
    def longest(self) -> int:
        return max(member.known - self.prompt for member in self.members)


class Request:
    """A sequence and how far it has come; a `Foreseen` sequence to plug-ins."""

    def __init__(self, group: Group, output: int) -> None:
        self.group = group
        self.id = group.id
        self.prompt = group.prompt
        self.output = output
        self.priority = group.priority
        self.salt = group.salt
        self.row = group.inputs.first[group.id] + group.born
        group.born += 1
        self.end = min(self.prompt + output, group.inputs.max_len)  # tokens known when it finishes
        self.known = self.prompt
        self.computed = 0
        self.peak = 0  # most that was ever computed

    @property
    def arrival_ns(self) -> int:
        return self.group.arrival_ns

    @property
    def tokens(self) -> int:
        """Its own, or those of all samples while it computes for all of them."""
        return self.known if self.group.split else self.group.common

    @property
    def final(self) -> int:
        """Tokens stored at its largest: the last one's KV never is."""
        return self.end - 1

    def runs(self) -> list[tuple[int, int]]:
        return self.group.inputs.content.runs(self.row)

    def content(self) -> list[int]:
        return [first + j for first, length in self.runs() for j in range(length)]

    def keys(self, block: int) -> Int64:
        return self.group.inputs.content.keys(self.row, block)

    def fork(self) -> Request:
        """Another that has stored the same, and knows as much."""
        child = Request(self.group, self.output)
        child.known = self.known
        child.computed = child.peak = self.computed
        return child


def results(rows: Sequence[Group], refused: Container[int], max_len: int) -> Requests:
    """The columns of `rows`; `refused` are ids."""

    def column(value: Callable[[Group], int]) -> Int64:
        return np.array([value(request) for request in rows], np.int64)

    def status(request: Group) -> int:
        if request.id in refused:
            return Status.REFUSED
        if request.prompt + request.output > max_len:
            return Status.TRUNCATED
        return Status.FINISHED

    return Requests(
        arrival_ns=column(lambda r: r.arrival_ns),
        admitted_ns=column(lambda r: r.admitted_ns),
        first_token_ns=column(lambda r: r.first_token_ns),
        finish_ns=column(lambda r: r.finish_ns),
        generated=column(lambda r: r.generated),
        hit=column(lambda r: r.hit),
        resumed_hit=column(lambda r: r.resumed_hit),
        preemptions=column(lambda r: r.preemptions),
        recomputed=column(lambda r: r.recomputed),
        status=column(status),
        longest=column(lambda r: r.longest),
    )


__all__ = ["Group", "Inputs", "Request", "results"]
