"""What could be different about a server, one thing at a time, and why some of it cannot.

A change is the present configuration with one part exchanged. Sizes are halved and doubled; other
parts take the values that servers offer. Nothing is tried that the parts say cannot be: the answer
then has the reason instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pagedsim.analysis.configuration import STATED, Configuration
from pagedsim.analysis.simulate import ALLOCATORS, Setup
from pagedsim.device.device import Device
from pagedsim.errors import PagedsimError
from pagedsim.specs import Spec, parse
from pagedsim.trace.trace import Trace

MORE_MEMORY, MOST_MEMORY = 0.05, 0.98  # of the card
WATERMARKS = (0.01, 0.05)
DTYPES = ("fp16", "fp8", "int4")


@dataclass(frozen=True, kw_only=True)
class Change:
    """`configuration` with one thing changed, `kind`; None where it cannot be: `why` says so."""

    kind: str
    text: str
    configuration: Configuration | None = None
    why: str = ""

    @property
    def possible(self) -> bool:
        """Whether there is something to replay."""
        return self.configuration is not None


@dataclass(frozen=True, kw_only=True)
class Present:
    """The configuration that is changed, its parts at hand, and the trace."""

    configuration: Configuration
    setup: Setup
    trace: Trace

    @property
    def device(self) -> Device:
        """The device as it is."""
        assert self.setup.device is not None
        return self.setup.device

    @property
    def allocator(self) -> Spec:
        """The spec of the allocator, taken apart."""
        return parse(self.configuration.allocator)

    @property
    def pool_stated(self) -> str:
        """Which option says how large the pool is; "" where it is estimated."""
        return next((key for key in STATED if key in self.configuration.device), "")


def changes(configuration: Configuration, trace: Trace) -> list[Change]:
    """Every change there is, those that cannot be among them, in a fixed order.

    Each possible one was sized: its model fits, and its parts go together.
    """
    present = Present(configuration=configuration, setup=configuration.setup(), trace=trace)
    found: list[Change] = []
    for kind, make in KINDS.items():
        for text, made in make(present):
            found.append(_sized(kind, text, made))
    return found


def _sized(kind: str, text: str, made: Configuration | str) -> Change:
    if isinstance(made, str):
        return Change(kind=kind, text=text, why=made)
    try:
        made.setup()
    except PagedsimError as error:
        return Change(kind=kind, text=text, why=str(error))
    return Change(kind=kind, text=text, configuration=made)


Made = Iterator[tuple[str, Configuration | str]]  # a text, and what it makes or why it cannot be


def _allocator(present: Present) -> Made:
    if present.allocator.path is None and present.allocator.name in ("paged", "radix"):
        return
    yield "paged", replace(present.configuration, allocator=ALLOCATORS[-1])


def _blocks(present: Present) -> Made:
    spec = present.allocator
    if spec.path is not None or spec.name != "paged":
        yield "block size", f"{spec.text} has no blocks of a size to choose"
        return
    block = int(spec.values.get("block", 16))
    for size in (block // 2, 2 * block):
        if size >= 1:
            yield f"block size {size}", _with(present, spec, block=str(size))


def _prefix(present: Present) -> Made:
    spec = present.allocator
    if spec.path is None and spec.name == "radix":
        yield "prefix caching", "a radix tree always shares prefixes"
    elif spec.path is not None or spec.name != "paged":
        yield "prefix caching", f"{spec.text} cannot share what it holds"
    elif spec.words.get("prefix", "off") == "on":
        yield "prefix caching off", _with(present, spec, prefix="off", evict=None)
    else:
        yield "prefix caching", _with(present, spec, prefix="on")


def _precision(present: Present) -> Made:
    device, stated = present.device, present.pool_stated
    token = device.kv_bytes_per_token_rank
    tried = 0
    for dtype in DTYPES:
        text = f"KV in {dtype}"
        try:
            size = device.model.kv_bytes_per_token(dtype, device.tp, device.pp)
        except PagedsimError as error:
            yield text, str(error)
            continue
        if size == token:
            continue
        tried += 1
        changed = present.configuration.on(kv_dtype=dtype)
        if stated:  # the same bytes hold another number of tokens
            options = {key: value for key, value in changed.device.items() if key != stated}
            held = int(device.capacity_tokens * token)
            changed = replace(changed, device={**options, "kv_memory_bytes": held})
        yield text, changed


def _max_len(present: Present) -> Made:
    setup, trace = present.setup, present.trace
    assert setup.max_len is not None
    longest = int((trace.prompt + trace.output).max())
    lengths = {setup.max_len // 2: "", 2 * setup.max_len: ""}
    if longest < setup.max_len:
        lengths[max(longest, 2)] = " (longest)"
    for length, why in sorted(lengths.items()):
        text = f"max length {length:,}{why}"
        if length < 2:
            continue
        known = present.device.model.max_len
        if known and length > known:
            yield text, f"{present.device.model.name} has positions up to {known:,}"
        else:
            yield text, replace(present.configuration, max_len=length)


def _limit(name: str, text: str) -> Callable[[Present], Made]:
    def make(present: Present) -> Made:
        spec = parse(present.configuration.scheduler)
        taken = {"vllm": ("max_seqs", "max_batched_tokens"), "orca": ("max_seqs",)}
        if spec.path is not None or name not in taken.get(spec.name, ("max_seqs",)):
            yield text, f"--scheduler {spec.text} has no {name}"
            return
        given = spec.values.get(name)
        value = given if isinstance(given, int) else getattr(present.device, name)
        words = [f"{key}={word}" for key, word in spec.words.items() if key != name]
        bare = f"{spec.name}:{','.join(words)}" if words else spec.name
        for changed in (value // 2, 2 * value):
            if changed >= 1:
                made = replace(present.configuration, scheduler=bare)
                yield f"{text} {changed:,}", made.on(**{name: changed})

    return make


def _watermark(present: Present) -> Made:
    spec = parse(present.configuration.scheduler)
    if spec.path is not None or spec.name not in ("vllm", "orca"):
        yield "watermark", f"--scheduler {spec.text} has no watermark"
        return
    now = float(spec.values.get("watermark", 0.0))
    words = {key: word for key, word in spec.words.items() if key != "watermark"}
    for share in (0.0, *WATERMARKS):
        if share == now:
            continue
        given = {**words, "watermark": f"{share:g}"} if share else words
        pairs = ",".join(f"{key}={word}" for key, word in given.items())
        made = replace(
            present.configuration, scheduler=f"{spec.name}:{pairs}" if pairs else spec.name
        )
        yield (f"watermark {share:g}" if share else "no watermark"), made


def _utilization(present: Present) -> Made:
    if stated := present.pool_stated:
        yield "GPU memory", f"--{stated.replace('_', '-')} says how large the pool is"
        return
    now = present.device.utilization
    for share in (round(now - MORE_MEMORY, 4), round(now + MORE_MEMORY, 4)):
        text = f"GPU memory {share:g}"
        if share > MOST_MEMORY:
            yield text, f"above {MOST_MEMORY:g} nothing is left for the driver and the runtime"
        elif share > 0:
            yield text, present.configuration.on(utilization=share)


def _tp(present: Present) -> Made:
    now, stated = present.device.tp, present.pool_stated
    for tp in (now // 2, 2 * now):
        if tp < 1 or (now == 1 and tp == 1):
            continue
        text = f"tp {tp}"
        if stated:
            said = f"--{stated.replace('_', '-')} states the pool of tp {now}"
            yield text, f"{said}; that of tp {tp} is not known"
        elif not present.configuration.derived:
            said = f"--steptime {present.configuration.steptime} has the times of tp {now}"
            yield text, f"{said}; those of tp {tp} are not known"
        else:
            yield text, present.configuration.on(tp=tp)


def _with(present: Present, spec: Spec, **words: str | None) -> Configuration:
    """With other words in the allocator's spec; None takes one away."""
    changed = {**spec.words, **words}
    pairs = ",".join(f"{key}={word}" for key, word in changed.items() if word is not None)
    return replace(present.configuration, allocator=f"{spec.name}:{pairs}" if pairs else spec.name)


def rebased(change: Configuration, present: Configuration, held: Configuration) -> Configuration:
    """`held` with what `change` changed of `present`, word by word where specs are alike."""
    device = dict(held.device)
    for key in {*present.device, *change.device}:
        if key not in change.device:
            device.pop(key, None)
        elif change.device[key] != present.device.get(key):
            device[key] = change.device[key]
    return replace(
        held,
        allocator=_merged(change.allocator, present.allocator, held.allocator),
        scheduler=_merged(change.scheduler, present.scheduler, held.scheduler),
        max_len=held.max_len if change.max_len == present.max_len else change.max_len,
        device=device,
    )


def _merged(change: str, present: str, held: str) -> str:
    if change == present:
        return held
    new, old, base = parse(change), parse(present), parse(held)
    if not new.name == old.name == base.name:
        return change
    words = dict(base.words)
    for key in {*new.words, *old.words}:
        if key not in new.words:
            words.pop(key, None)
        elif new.words[key] != old.words.get(key):
            words[key] = new.words[key]
    pairs = ",".join(f"{key}={word}" for key, word in sorted(words.items()))
    return f"{base.name}:{pairs}" if pairs else base.name


KINDS: dict[str, Callable[[Present], Made]] = {
    "allocator": _allocator,
    "block size": _blocks,
    "KV precision": _precision,
    "prefix caching": _prefix,
    "maximum length": _max_len,
    "sequence limit": _limit("max_seqs", "max seqs"),
    "token budget": _limit("max_batched_tokens", "token budget"),
    "watermark": _watermark,
    "GPU memory": _utilization,
    "tensor parallel": _tp,
}

__all__ = ["KINDS", "Change", "changes", "rebased"]
