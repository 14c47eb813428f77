"""pagedsim against other simulators of the same hour: a hand loop of counts, and `ai-dynamo`.

Each is timed from the trace file to its result, by the time of its own process and by the clock.
The hand loop must do the same steps and finish every request at the same time. ai-dynamo has step
times of its own, so of it only requests and tokens are held to the trace.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import handloop
from common import (
    BUDGET,
    MAX_SEQS,
    SATURATED,
    Settings,
    arguments,
    clocked,
    done,
    imports,
    known,
    lengths,
    machine,
    parts,
    process,
    replay,
    seconds,
    table,
    timed,
)

from pagedsim.analysis.report import report
from pagedsim.trace import Trace, load

STEP_MS = 30
BLOCK = 512  # tokens of a hash id
LONG = 131_072  # maximum length where prompts are long
DYNAMO_TIMES = {
    "its own step times": {"type": "polynomial"},
    "30 ms, prefill 0": {"type": "fixed", "prefill_ms": 0, "decode_ms": STEP_MS},
}


def shares(trace: Trace) -> bool:
    """Whether it says what requests have in common."""
    return trace.format == "mooncake"


def write(trace: Trace, path: Path) -> Path:
    """The trace as ai-dynamo reads it; ids name blocks of 512 tokens, fresh where none are known.

    A Mooncake trace's runs are its ids, one each.
    """
    fresh = 0
    with path.open("w", encoding="utf-8") as out:
        for row in range(len(trace)):
            prompt = int(trace.prompt[row])
            count = -(-prompt // BLOCK)
            if shares(trace):
                own = trace.run_token[trace.run_rows[row] : trace.run_rows[row + 1]] // BLOCK
                ids = own.tolist()
                assert len(ids) == count
            else:
                ids, fresh = list(range(fresh, fresh + count)), fresh + count
            entry = {
                "timestamp": int(trace.arrival_ns[row]) / 1e6,
                "input_length": prompt,
                "output_length": int(trace.output[row]),
                "hash_ids": ids,
            }
            out.write(json.dumps(entry) + "\n")
    return path


def hand(trace: Trace, settings: Settings, recording: Any) -> float:
    """Seconds of the hand loop, which must come to the same."""
    rows = lengths(trace)
    blocks = parts(settings)[0].capacity // 16

    def run() -> Any:
        return handloop.run(rows, STEP_MS * 10**6, blocks, 16, settings.max_len, MAX_SEQS, BUDGET)

    taken, (steps, request_steps, finish) = timed(run)
    work = done(trace, recording)
    assert (steps, request_steps) == (work.steps, work.request_steps)
    assert finish == recording.requests.finish_ns.tolist()
    return taken


def whole(path: str, limit: int | None, settings: Settings) -> Callable[[], Any]:
    """From the file to the report."""

    def run() -> Any:
        trace = load(path, limit=limit)
        _, recording = replay(trace, settings)
        found = report(recording, trace, name=settings.allocator, steptime=parts(settings)[2])
        assert found.run.finished == len(trace)
        return recording

    return run


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = arguments(__doc__)
    parser.add_argument("--dynamo", default=sys.executable, help="the Python that has ai-dynamo")
    parser.add_argument("--kv-tokens", type=int, default=SATURATED, help="of the saturated pool")
    options = parser.parse_args(argv)
    trace = load(options.trace, limit=options.limit)
    print(f"{machine()}\n{trace}\n")
    allocator = "paged:block=16,prefix=on" if shares(trace) else "paged:block=16"
    about = {"allocator": allocator}
    if shares(trace):
        about["max_len"] = LONG
    installed = imports(options.dynamo, "dynamo.replay")
    if not installed:
        print("ai-dynamo is not installed here, so it is not measured\n")
    rows = []
    for pool in (0,) if shares(trace) else (0, options.kv_tokens):
        least: dict[str, float] = {}
        clocks: dict[str, float] = {}
        for spec in (f"constant:ms={STEP_MS}", "roofline"):
            settings = Settings(spec, pool, **about)
            run = whole(options.trace, options.limit, settings)
            times, on_clock = [], []
            for _ in range(options.repeat):
                taken, clock, recording = clocked(run)
                times.append(taken)
                on_clock.append(clock)
            work = done(trace, recording)
            note = "as known" if known(trace, settings, work) else "not written down"
            least[f"pagedsim, {spec}"], clocks[f"pagedsim, {spec}"] = min(times), min(on_clock)
            print(f"{settings}\n  {work} ({note})\n  pagedsim {seconds(times)}")
            if spec.startswith("constant") and not shares(trace):
                taken = hand(trace, settings, recording)
                print(f"  hand loop {taken:.3f} s, same steps and finish times")
                least["hand loop, the same steps"] = taken
        blocks = parts(settings)[0].capacity // 16
        if installed:
            for name, model in DYNAMO_TIMES.items():
                runs = dynamo(trace, options.dynamo, blocks, model, options.repeat)
                print(f"ai-dynamo, {name}: {seconds([x['cpu_s'] for x in runs])}")
                least[f"ai-dynamo, {name}"] = min(x["cpu_s"] for x in runs)
                clocks[f"ai-dynamo, {name}"] = min(x["clock_s"] for x in runs)
        print()
        first = least[f"pagedsim, constant:ms={STEP_MS}"]
        second = least["pagedsim, roofline"]
        for name, taken in least.items():
            clock = f"{clocks[name]:.2f}" if name in clocks else ""
            cells = (f"{taken / first:.2f}", f"{taken / second:.2f}")
            rows.append((f"{name}, {pool or 'GPU'}", f"{taken:.2f}", clock, *cells))
    head = ("file to result", "s of its own", "s on the clock")
    table((*head, "÷ pagedsim constant", "÷ pagedsim roofline"), rows)


def dynamo(
    trace: Trace, python: str, blocks: int, model: dict[str, Any], repeat: int
) -> list[dict[str, Any]]:
    """What each run of ai-dynamo says of itself; all requests and tokens must be there."""
    engine = {
        "block_size": 16,
        "num_gpu_blocks": blocks,
        "max_num_seqs": MAX_SEQS,
        "max_num_batched_tokens": BUDGET,
        "enable_prefix_caching": shares(trace),
        "timing_model": model,
    }
    driver = Path(__file__).with_name("dynamo_driver.py")
    with tempfile.TemporaryDirectory() as folder:
        path = write(trace, Path(folder) / "trace.jsonl")
        told = (str(path), str(BLOCK), json.dumps({"engine": engine}), str(repeat))
        ran = process([python, str(driver), *told], PYTHONPATH="")
    runs = [json.loads(x) for x in ran.out.splitlines() if x.startswith('{"cpu_s"')]
    wanted = (len(trace), int(trace.prompt.sum()), int(trace.output.sum()))
    for run in runs:
        said = ("completed_requests", "total_input_tokens", "total_output_tokens")
        assert tuple(run[key] for key in said) == wanted, run
    assert len(runs) == repeat
    return runs


if __name__ == "__main__":
    main()
