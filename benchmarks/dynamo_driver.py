"""Runs `ai-dynamo`'s compiled offline replay. Arguments: a Mooncake-style JSONL file, its block
size, the engine's configuration as JSON, how often. Standard output: a line of JSON a run, and
first how long the import took. Needs ai-dynamo and ai-dynamo-runtime alone.
"""

from __future__ import annotations

import json
import sys
import time

began = time.process_time()
from dynamo.replay import run_trace_replay  # noqa: E402

print(json.dumps({"import_cpu_s": time.process_time() - began}))
path, block, engine, repeat = sys.argv[1:]
for _ in range(int(repeat)):
    began, clock = time.process_time(), time.perf_counter()
    summary = run_trace_replay(
        [path], extra_engine_args=engine, trace_block_size=int(block)
    ).summary
    took = {"cpu_s": time.process_time() - began, "clock_s": time.perf_counter() - clock}
    keys = ("completed_requests", "total_input_tokens", "total_output_tokens", "wall_time_ms")
    print(json.dumps({**took, **{key: summary[key] for key in keys}}))
