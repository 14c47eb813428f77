"""Random traces whose requests have samples and beams, and an oracle of what each of them holds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from test_prefix_agrees import sharing_traces

from pagedsim.trace.samples import Forks
from pagedsim.trace.trace import Trace


@st.composite
def forking_traces(draw: st.DrawFn, *, beams: bool = True) -> Trace:
    """Shared content, salts and priorities as there; one to four samples a row, of any lengths."""
    plain = draw(sharing_traces())
    rows = len(plain)
    samples = [draw(st.sampled_from([1, 2, 3, 4, 2])) for _ in range(rows)]
    beam = [draw(st.sampled_from([0, 0, 1] if beams else [0])) * (n > 1) for n in samples]
    lengths: list[int] = []
    outputs, cuts = [], [0]
    forks: list[tuple[int, int, int]] = []
    for count, together in zip(samples, beam, strict=True):
        most = draw(st.integers(1, 16))
        own = [most] * count
        if not together and draw(st.booleans()):
            own = [draw(st.integers(1, most)) for _ in range(count)]
        lengths += own
        outputs.append(max(own))
        if together:
            for after in range(1, max(own)):
                dead = draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
                alive = sorted(set(range(count)) - dead)
                forks += [(after, slot, draw(st.sampled_from(alive))) for slot in sorted(dead)]
        cuts.append(len(forks))
    return Trace.build(
        "t",
        plain.arrival_ns,
        plain.prompt,
        outputs,
        runs=(plain.run_rows, plain.run_token, plain.run_length),
        output_token=plain.output_token,
        columns={"salt": plain.salt, "priority": plain.priority, "samples": samples, "beam": beam},
        sample_output=lengths,
        forks=Forks(cuts, *zip(*forks, strict=True)) if forks else None,  # type: ignore[arg-type]
    )


def lives(trace: Trace, row: int) -> list[list[tuple[Any, ...]]]:
    """The tokens of every member of a row, in order of birth; what is generated is named by whom.

    Told forwards, a token at a time, by beams that are lists.
    """
    first = int(trace.samples[:row].sum())
    count = int(trace.samples[row])
    sizes = [int(trace.output[row])] * count
    if trace.sample_output is not None:
        sizes = trace.sample_output[first : first + count].tolist()
    born: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
    name = dict(enumerate(range(count)))
    now = list(born)
    events = trace.forks.of(row) if trace.forks is not None else {}
    for after in range(1, max(sizes) + 1):
        for slot, life in enumerate(now):
            if after <= sizes[slot]:
                life.append((name[slot], after))
        if after == max(sizes):
            break
        before = list(now)
        for slot, parent in events.get(after, []):
            name[slot] = len(born)
            now[slot] = [*before[parent][:-1], (name[slot], after)]
            born.append(now[slot])
    return born
