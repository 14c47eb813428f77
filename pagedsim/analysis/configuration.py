"""What of a server can be chosen, as one value: to be compared with others, or changed by a part.

A `Configuration` is a `Setup` before its device is made, with the allocator. It is small and can be
sent to another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pagedsim.analysis.simulate import ALLOCATORS, GPU, MODEL, Setup, allocator_of
from pagedsim.device.device import make_device
from pagedsim.device.tables import find_gpu, find_model
from pagedsim.specs import make_scheduler, make_steptime

# Options of `make_device` that say how large the pool is, so that it is no estimate.
STATED = ("kv_tokens", "kv_blocks", "kv_memory_bytes", "engine_log")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Specs of the parts, and of the device what `make_device` takes by name.

    `max_len` None is the model's own, or what the pool holds if that is less.
    """

    allocator: str = ALLOCATORS[-1]
    scheduler: str = "vllm"
    steptime: str = "roofline"
    model: str = MODEL
    gpu: str = GPU
    max_len: int | None = None
    closed_loop: bool = False
    device: Mapping[str, Any] = field(default_factory=dict)

    def setup(self, **more: Any) -> Setup:
        """The run that it asks for; `more` are other fields of `Setup`.

        Every part is made once. DeviceError where the model does not fit, SpecError for a part
        that there is not or that does not go with the others.
        """
        device = make_device(self.model, self.gpu, **self.device)
        made = Setup(
            device=device,
            scheduler=self.scheduler,
            steptime=self.steptime,
            max_len=self.max_len,
            closed_loop=self.closed_loop,
            **more,
        ).resolved()
        assert made.max_len is not None
        allocator_of(self.allocator, made)
        make_scheduler(
            self.scheduler, max_seqs=device.max_seqs, max_batched_tokens=device.max_batched_tokens
        ).check(made.max_len)
        make_steptime(self.steptime, device=device)
        return made

    def named(self) -> str:
        """Model, GPUs and allocator, for people; DeviceError for one that does not exist."""
        cards = self.device.get("tp", 1) * self.device.get("pp", 1)
        gpu = find_gpu(self.gpu).name
        return " · ".join(
            (find_model(self.model).name, f"{cards}x {gpu}" if cards > 1 else gpu, self.allocator)
        )

    @property
    def derived(self) -> bool:
        """Whether step times follow from the device, so that they change with it."""
        return self.steptime.startswith("roofline")

    def estimates(self, *, pool: bool = True) -> tuple[str, ...]:
        """What of a run under it is estimated, in words; without `pool` its pool does not count."""
        said = []
        if pool and not any(key in self.device for key in STATED):
            said.append("Pool sizes are estimates")
        if self.steptime.startswith("roofline"):
            said.append("Step times are a roofline estimate, not measured")
        elif self.steptime.startswith("fitted"):
            said.append(f"Step times are fitted to measured steps ({self.steptime})")
        if not self.derived:
            said.append(
                f"--steptime {self.steptime} stays the same whatever the GPU, tp or KV precision"
            )
        return tuple(said)

    def on(self, **device: Any) -> Configuration:
        """The same with other options of `make_device`."""
        return replace(self, device={**self.device, **device})


__all__ = ["STATED", "Configuration"]
