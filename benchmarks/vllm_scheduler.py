"""pagedsim against the real vLLM scheduler, driven step by step on a CPU without a model.

Both replay the same requests into the same pool, and must do the same steps, with the same
preemptions and finish times. Without an installed vLLM nothing of it is measured, and what its
recorded 20 to 30 µs a request-step would come to is printed as recorded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from common import (
    BUDGET,
    MAX_LEN,
    MAX_SEQS,
    SATURATED,
    US,
    Settings,
    arguments,
    done,
    imports,
    lengths,
    machine,
    parts,
    process,
    replay,
    seconds,
    table,
)

from pagedsim.trace import load

RECORDED_US = (20, 30)  # a sequence and step: recorded elsewhere, with vLLM 0.33.0
STEP_MS = 30


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__)
    parser.add_argument("--python", default=sys.executable, help="the Python that has vLLM")
    parser.add_argument("--kv-tokens", type=int, default=SATURATED, help="of the saturated pool")
    options = parser.parse_args(argv)
    trace = load(options.trace, limit=options.limit)
    print(f"{machine()}\n{trace}\n")
    installed = imports(options.python, "vllm")
    rows = []
    for pool in (0, options.kv_tokens):
        settings = Settings(f"constant:ms={STEP_MS}", pool)
        runs = [replay(trace, settings) for _ in range(options.repeat)]
        work, recording = done(trace, runs[0][1]), runs[0][1]
        fast_s = min(s for s, _ in runs)
        print(f"{settings}\n  {work}\n  pagedsim {seconds([s for s, _ in runs])}")
        if not installed:
            print("  vLLM is not installed here: recorded, not measured")
            for us in RECORDED_US:
                total = us * work.request_steps / US
                rows.append((f"recorded {us} µs, {pool or 'GPU'}", us, f"{total / fast_s:.0f}"))
            continue
        assert not recording.refused, "vLLM would be asked for what can never fit"
        asked = {
            "step_ns": STEP_MS * 10**6,
            "blocks": parts(settings)[0].capacity // 16 + 1,  # one more: the null block
            "block": 16,
            "max_len": MAX_LEN,
            "max_seqs": MAX_SEQS,
            "budget": BUDGET,
            "requests": lengths(trace),
        }
        driver = Path(__file__).with_name("vllm_driver.py")
        ran = process([options.python, str(driver)], json.dumps(asked), PYTHONPATH="")
        said = json.loads(ran.out.splitlines()[-1])
        for key in ("steps", "request_steps", "tokens", "preemptions"):
            assert said[key] == getattr(work, key), f"{key}: vLLM {said[key]}, {work}"
        assert said["finish_ns"] == recording.requests.finish_ns.tolist()
        per = said["cpu_s"] / work.request_steps * US
        print(f"  vLLM {said['cpu_s']:.1f} s, {ran.wall:.0f} s with its imports; equal: steps,")
        print("  request-steps, tokens, preemptions, the finish time of every request\n")
        rows.append((f"vLLM, {pool or 'GPU'}", f"{per:.1f}", f"{said['cpu_s'] / fast_s:.0f}"))
    table(("", "µs a request-step", "pagedsim is times faster"), rows)


if __name__ == "__main__":
    main()
