"""Drives the scheduler of an installed vLLM as an engine would, without a model. Standard input is
JSON: ``step_ns``, ``blocks``, ``block``, ``max_len``, ``max_seqs``, ``budget`` and ``requests``, a
list of [arrival ns, prompt, output]; standard output is JSON: what it did. Needs vLLM alone.

Every step takes `step_ns`. A request gets token 0 whenever its prompt is computed, so the work is
the scheduler's: `schedule` and `update_from_output`. vLLM's own scheduling is asynchronous by
default; here it is synchronous, as in pagedsim.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ |= {
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": 128,
    "torch_dtype": "float32",
}


def scheduler(given: dict[str, Any], folder: str) -> Any:
    """vLLM's scheduler over a pool of `blocks`, prefix caching off."""
    import torch
    from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    config = {**_LLAMA, "max_position_embeddings": given["max_len"]}
    (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model = ModelConfig(
        model=folder, max_model_len=given["max_len"], skip_tokenizer_init=True, dtype="float32"
    )
    cache = CacheConfig(block_size=given["block"], enable_prefix_caching=False)
    cache.num_gpu_blocks = given["blocks"]
    limits = SchedulerConfig(
        max_model_len=given["max_len"],
        is_encoder_decoder=False,
        max_num_seqs=given["max_seqs"],
        max_num_batched_tokens=given["budget"],
        enable_chunked_prefill=True,
        async_scheduling=False,
    )
    whole = VllmConfig(
        model_config=model,
        cache_config=cache,
        scheduler_config=limits,
        device_config=DeviceConfig(device="cpu"),
    )
    layers = FullAttentionSpec(
        block_size=given["block"], num_kv_heads=4, head_size=16, dtype=torch.float32
    )
    groups = [KVCacheGroupSpec(layer_names=["layer"], kv_cache_spec=layers)]
    pool = KVCacheConfig(num_blocks=given["blocks"], kv_cache_tensors=[], kv_cache_groups=groups)
    manager = StructuredOutputManager(whole)
    return Scheduler(whole, pool, manager, block_size=given["block"], log_stats=False)


def drive(engine: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Replay the requests; seconds of this process's time, and what was done."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request

    rows, at, now = given["requests"], 0, 0
    steps = request_steps = tokens = preemptions = 0
    finish: list[int] = [-1] * len(rows)
    alive: dict[str, Any] = {}
    began = time.process_time()
    while at < len(rows) or alive:
        if not alive:
            now = max(now, rows[at][0])
        while at < len(rows) and rows[at][0] <= now:
            _, prompt, output = rows[at]
            sampling = SamplingParams(max_tokens=output, ignore_eos=True)
            sampling.update_from_generation_config({}, None)
            request = Request(str(at), [0] * prompt, sampling, None)
            alive[request.request_id] = request
            engine.add_request(request)
            at += 1
        plan = engine.schedule()
        scheduled = plan.num_scheduled_tokens
        ids = list(scheduled)
        steps += 1
        request_steps += len(ids)
        tokens += plan.total_num_scheduled_tokens
        preemptions += len(plan.preempted_req_ids or ())
        now += given["step_ns"]
        ready = [alive[i].num_computed_tokens >= alive[i].num_tokens for i in ids]
        said = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: index for index, name in enumerate(ids)},
            sampled_token_ids=[[0] if is_ready else [] for is_ready in ready],
        )
        engine.update_from_output(plan, said)
        for name, is_ready in zip(ids, ready, strict=True):
            if is_ready and alive[name].is_finished():
                finish[int(name)] = now
                del alive[name]
    return {
        "cpu_s": time.process_time() - began,
        "steps": steps,
        "request_steps": request_steps,
        "tokens": tokens,
        "preemptions": preemptions,
        "finish_ns": finish,
    }


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as place:
        answer = drive(scheduler(asked, place), asked)
    print(json.dumps(answer))
