"""Logs in the engines' formats, written from a replay step by step by other means than the reader.

The writer walks the steps one at a time and keeps books of its own; it shares no code with
`pagedsim.analysis.logged`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from pagedsim.analysis import series
from pagedsim.analysis.report import Report
from pagedsim.engine.recording import Window

START = datetime(2026, 11, 30, 23, 59, 30)  # a day ends amid the log
ARGS = (
    "(APIServer pid=1) INFO 11-30 23:58:00 [utils.py:233] non-default args: {'model_tag': "
    "'meta-llama/Llama-3.1-8B-Instruct', 'api_key': ['SECRET-KEY'], 'ssl_keyfile': '/SECRET/key', "
    "'model': 'meta-llama/Llama-3.1-8B-Instruct', 'max_model_len': 16384, 'max_num_seqs': 24, "
    "'block_size': 32, 'enable_prefix_caching': True, 'logits_processors': [<class 'SECRET'>]}"
)
POOL = "(EngineCore pid=2) INFO 11-30 23:58:50 [kv.py:1087] GPU KV cache size: 60,000 tokens"
PROMPT = (
    "(APIServer pid=1) INFO 11-30 23:59:31 [logger.py:43] Received request cmpl-SECRET-1: prompt: "
    "'SECRET-TEXT Running: 3 reqs', params: SamplingParams(n=1), prompt_token_ids: [777001]"
)


class Moment(NamedTuple):
    """What is so at a time of the replay."""

    second: float
    running: int
    waiting: int
    held: int
    hit: float | None  # of the last 1000 admitted
    cached: int  # tokens hit so far
    asked: int
    preemptions: int
    made: int  # output tokens so far, each request's at even distances
    read: int  # prompt tokens of requests with a first token


def moments(report: Report, seconds: list[float]) -> list[Moment]:
    """By a walk over all steps and all requests for each time."""
    rows = np.concatenate(list(series.steps(report.recording, report.steptime))).tolist()
    names = Window._fields
    steps = [dict(zip(names, row, strict=True)) for row in rows]
    requests = report.recording.requests
    columns: Any = zip(
        requests.arrival_ns.tolist(),
        requests.admitted_ns.tolist(),
        requests.finish_ns.tolist(),
        requests.hit.tolist(),
        report.trace.prompt.tolist(),
        requests.preemptions.tolist(),
        requests.first_token_ns.tolist(),
        requests.generated.tolist(),
        strict=True,
    )
    every = list(columns)
    found = []
    for second in seconds:
        now = second * 1e9
        here = [step for step in steps if step["start_ns"] <= now < step["end_ns"]]
        admitted = sorted((row for row in every if 0 <= row[1] <= now), key=lambda row: row[1])

        def rate(part: list[Any]) -> float | None:
            asked = sum(row[4] for row in part)
            return sum(row[3] for row in part) / asked if asked else None

        found.append(
            Moment(
                second,
                here[0]["batch"] if here else 0,
                sum(row[0] <= now for row in every) - len(admitted),
                here[0]["held"] if here else 0,
                rate(admitted[-1000:]),
                sum(row[3] for row in admitted),
                sum(row[4] for row in admitted),
                sum(row[5] for row in every if 0 <= row[2] <= now),
                sum(_made(row[6], row[2], row[7], now) for row in every if 0 <= row[6] <= now),
                sum(row[4] for row in every if 0 <= row[6] <= now),
            )
        )
    return found


def _made(first: int, finish: int, tokens: int, now: float) -> int:
    """How many of a request's tokens are there, one after another."""
    between = (finish - first) / max(1, tokens - 1)
    return min(tokens, 1 + int((now - first) / between)) if between else tokens


def vllm(report: Report, seconds: list[float], lead: float = 20.0) -> list[str]:
    """Lines of vLLM's logger; the replay begins `lead` seconds after `START`."""
    lines, before, told = [ARGS, POOL, PROMPT], 0, Moment(0.0, 0, 0, 0, None, 0, 0, 0, 0, 0)
    for moment in moments(report, seconds):
        spent = max(1e-9, moment.second - told.second)
        read, made = (moment.read - told.read) / spent, (moment.made - told.made) / spent
        told = moment
        at = (START + timedelta(seconds=lead + moment.second)).strftime("%m-%d %H:%M:%S")
        several = moment.preemptions - before
        preempted = f", Preemptions: {several}" if several else ""
        lines.append(
            f"(APIServer pid=1) INFO {at} [loggers.py:259] Engine 000: Avg prompt throughput: "
            f"{read:.1f} tokens/s, Avg generation throughput: {made:.1f} tokens/s, "
            f"Running: {moment.running} reqs, Waiting: {moment.waiting} reqs{preempted}, "
            f"GPU KV cache usage: {100 * moment.held / report.recording.capacity:.1f}%, "
            f"Prefix cache hit rate: {100 * (moment.hit or 0):.1f}%"
        )
        before = moment.preemptions
    return lines


def sglang(report: Report, seconds: list[float], lead: float = 20.0) -> list[str]:
    """Decode lines of SGLang's scheduler, and a prefill line before each that carries the hits."""
    lines = [
        "[2026-11-30 23:58:00] server_args=ServerArgs(model_path='llama-3.1-8b', "
        "api_key='SECRET-KEY', context_length=16384, page_size=16, max_running_requests=24, "
        "disable_radix_cache=False, tp_size=1)",
        "[2026-11-30 23:58:50] KV Cache is allocated. #tokens: 60000, K size: 3.7 GB",
        "[2026-11-30 23:59:31] Receive: obj=GenerateReqInput(text='SECRET-TEXT')",
    ]
    told = [0, 0]
    for moment in moments(report, seconds):
        at = (START + timedelta(seconds=lead + moment.second)).strftime("%Y-%m-%d %H:%M:%S")
        cached, new = moment.cached, moment.asked - moment.cached
        lines.append(
            f"[{at} TP0] Prefill batch, #new-seq: 1, #new-token: {new - told[1]}, #cached-token: "
            f"{cached - told[0]}, token usage: 0.10, #running-req: 3, #queue-req: 0"
        )
        told = [cached, new]
        lines.append(
            f"[{at} TP0] Decode batch, #running-req: {moment.running}, #full token: {moment.held}, "
            f"full token usage: {moment.held / report.recording.capacity:.2f}, cuda graph: True, "
            f"gen throughput (token/s): 20.50, #queue-req: {moment.waiting}"
        )
    return lines
