"""Runs `kvcache-simulator`. Arguments: a JSONL trace, capacities, policies, back ends, how often.

Standard output: a line of JSON for what was read, then one for each back end and policy with the
hit tokens at every capacity (null where it was not full in time, which it leaves out) and the
seconds of each run: `cpu_s` of this process and its children, `clock_s`. Reading is apart.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from kvcache_sim.cpp_backend import ensure_cpp_simulator, run_cpp_sweep
from kvcache_sim.plan import build_execution_plan
from kvcache_sim.policies import simulate_policy
from kvcache_sim.trace import parse_trace_file


def used() -> float:
    """Seconds of this process and of those that it started and that ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


path, capacities, policies, backends, repeat = sys.argv[1:]
began = used()
trace = parse_trace_file(path)
print(json.dumps({"requests": trace.request_count, "blocks": len(trace.ids), "s": used() - began}))
at = [int(word) for word in capacities.split(",")]
warmup = trace.request_count // 2
if "cpp" in backends:
    ensure_cpp_simulator()  # compiled once, not counted


def cpp(policy: str) -> dict[int, object]:
    """The compiled core, in a process of its own, at all capacities."""
    found = run_cpp_sweep(trace, capacities=at, policies=[policy], warmup_requests=warmup)
    return {capacity: found.results[(policy, capacity)] for capacity in at}


def python(policy: str) -> dict[int, object]:
    """Its plan, and a run a capacity."""
    plan = build_execution_plan(trace, warmup_fraction=0.5)
    return {capacity: simulate_policy(plan, policy, capacity) for capacity in at}


for backend in backends.split(","):
    for policy in policies.split(","):
        runs = []
        for _ in range(int(repeat)):
            own, clock = used(), time.perf_counter()
            found = (cpp if backend == "cpp" else python)(policy)
            runs.append([used() - own, time.perf_counter() - clock])
        hits = [
            None if one.measurementMode == "underfilled_at_window" else one.hitTokens
            for one in found.values()
        ]
        said = {"backend": backend, "policy": policy, "hit_tokens": hits}
        print(json.dumps({**said, "cpu_s": min(runs)[0], "clock_s": min(runs)[1]}), flush=True)
