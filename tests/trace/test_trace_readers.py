"""Every format: the values that come out, the conventions, and what real files contain."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard

from pagedsim.errors import InputError
from pagedsim.trace import Trace, load

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
AZURE += "2023-11-16 18:15:50.9951691,396,109"
MOONCAKE = [
    {"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]},
    {"timestamp": 27, "input_length": 1024, "output_length": 7, "hash_ids": [0, 3]},
]


def put(tmp_path: Path, text: str | bytes | list[dict[str, object]], name: str = "t") -> Path:
    if isinstance(text, list):
        text = "".join(json.dumps(row) + "\n" for row in text)
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def runs(trace: Trace, row: int) -> list[tuple[int, int]]:
    at = slice(int(trace.run_rows[row]), int(trace.run_rows[row + 1]))
    return list(zip(trace.run_token[at].tolist(), trace.run_length[at].tolist(), strict=True))


def test_azure_keeps_ticks_of_100_ns(tmp_path: Path) -> None:
    trace = load(put(tmp_path, AZURE))
    assert trace.format == "azure"
    assert trace.arrival_ns.tolist() == [0, 4_314_579_100]
    assert trace.prompt.tolist() == [374, 396]
    assert trace.output.tolist() == [44, 109]
    assert trace.sha256 == hashlib.sha256(AZURE.encode()).hexdigest()
    assert trace.notes == ()


def test_azure_2024_with_time_zones_and_unsorted(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01.009930+00:00,2162,5\n"
    text += "2024-05-10 00:00:00+00:00,7,9\n2024-05-10 02:00:00.5+02:00,1,1\n"
    trace = load(put(tmp_path, text))
    assert trace.arrival_ns.tolist() == [0, 500_000_000, 1_009_930_000]
    assert trace.prompt.tolist() == [7, 1, 2162]
    assert any("sorted" in note for note in trace.notes)


def test_mooncake_names_the_partial_last_block(tmp_path: Path) -> None:
    trace = load(put(tmp_path, MOONCAKE))
    assert trace.arrival_ns.tolist() == [0, 27_000_000]
    assert runs(trace, 0) == [(0, 512), (512, 512), (1024, 6)]
    assert runs(trace, 1) == [(0, 512), (1536, 512)]
    assert trace.output_token.min() >= 2048
    assert trace.extra == {"block": 512}


def test_huge_ids_are_made_dense(tmp_path: Path) -> None:
    rows = [{**row, "hash_ids": [2**60 + h for h in row["hash_ids"]]} for row in MOONCAKE]  # type: ignore[attr-defined]
    plain, huge = load(put(tmp_path, MOONCAKE)), load(put(tmp_path, rows))
    assert runs(plain, 0) == runs(huge, 0)


def test_floor_convention_where_a_whole_file_has_it(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [4]},
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [4]},
    ]
    trace = load(put(tmp_path, rows))
    assert runs(trace, 0)[0] == runs(trace, 1)[0] == (2048, 512)
    assert runs(trace, 0)[1] == (2560, 88)
    assert runs(trace, 1)[1] == (2648, 88)  # the rest is new in each


def test_burstgpt_drops_failed_requests(tmp_path: Path) -> None:
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    text += "5,ChatGPT,472,18,490,Conversation log\n45.5,ChatGPT,1087,0,1087,API log\n"
    text += "118,GPT-4,417,276,693,Conversation log\n"
    trace = load(put(tmp_path, text))
    assert trace.arrival_ns.tolist() == [5_000_000_000, 118_000_000_000]
    assert trace.dropped == 1
    assert trace.notes == ("1 of 3 requests have zero output and were left out",)
    with pytest.raises(InputError, match=r"t:3: Response tokens is 0, must be >= 1"):
        load(tmp_path / "t", zero_output="error")


def test_bailian_links_turns(tmp_path: Path) -> None:
    rows = [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.061, "input_length": 17},
        {"chat_id": 9, "parent_chat_id": -1, "timestamp": 1, "input_length": 16},
        {"chat_id": 2, "parent_chat_id": 1, "timestamp": 2.5, "input_length": 40},
        {"chat_id": 3, "parent_chat_id": 77, "timestamp": 3, "input_length": 1},
    ]
    ids = [[5, 6], [7], [5, 6, 8], [9]]
    more = {"output_length": 3, "type": "text", "turn": 1}
    trace = load(
        put(tmp_path, [{**r, **more, "hash_ids": h} for r, h in zip(rows, ids, strict=True)])
    )
    assert trace.arrival_ns.tolist()[0] == 61_000_000
    assert trace.parent.tolist() == [-1, -1, 0, -1]
    assert trace.session.tolist() == [0, 1, 0, 2]
    assert runs(trace, 2) == [(80, 16), (96, 16), (128, 8)]
    assert trace.notes == ("1 turns name a parent that is not in the file",)


def test_kvcacheai(tmp_path: Path) -> None:
    rows = [{"block_size": 64, "hash_ids": [2001, 2002], "input_length": 128}]
    trace = load(put(tmp_path, rows))
    assert not trace.timed
    assert trace.output.tolist() == [1]
    assert trace.notes == ("no output lengths: one token each",)
    parts = [{**rows[0], "block_tokens": [64, 10], "input_length": 80, "output_length": 4}]
    trace = load(put(tmp_path, parts))
    assert runs(trace, 0) == [(0, 64), (64, 10), (128, 6)]
    assert trace.output.tolist() == [4]


def agent(**more: object) -> dict[str, object]:
    first = {"t": 0.0, "type": "s", "in": 130, "out": 5, "hash_ids": [1, 2], "think_time": 0.0}
    second = {"t": 9.5, "type": "n", "in": 200, "out": 6, "hash_ids": [1, 2, 3], "think_time": 2.5}
    return {
        "id": "x",
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": [first, second],
        **more,
    }


def test_agent_session(tmp_path: Path) -> None:
    trace = load(put(tmp_path, json.dumps(agent())))
    assert trace.format == "agent"
    assert runs(trace, 0) == [(64, 64), (128, 64), (256, 2)]
    assert runs(trace, 1) == [(64, 64), (128, 64), (192, 64), (258, 8)]
    assert trace.parent.tolist() == [-1, 0]
    assert trace.think_ns.tolist() == [-1, 2_500_000_000]


def test_agent_subagents_restart_their_clock(tmp_path: Path) -> None:
    session = agent()
    inner = {"t": 1.0, "type": "n", "in": 64, "out": 2, "hash_ids": [8]}
    failed = {"t": 1.5, "type": "n", "in": 64, "out": 0, "hash_ids": [8]}
    entries = session["requests"]
    assert isinstance(entries, list)
    entries.insert(1, {"t": 3.0, "type": "subagent", "requests": [inner, failed]})
    trace = load(put(tmp_path, json.dumps(session, indent=1)))
    assert trace.arrival_ns.tolist() == [0, 4_000_000_000, 9_500_000_000]
    assert trace.parent.tolist() == [-1, 0, 0]
    assert trace.dropped == 1


def test_agent_ids_are_local_to_a_session(tmp_path: Path) -> None:
    trace = load(put(tmp_path, [agent(), agent(id="y")]))
    assert trace.session.tolist() == [0, 0, 1, 1] or trace.session.tolist() == [0, 1, 0, 1]
    first, second = (np.flatnonzero(trace.session == s)[0] for s in (0, 1))
    assert not {f for f, _ in runs(trace, int(first))} & {f for f, _ in runs(trace, int(second))}
    assert "2 sessions, all starting at time 0" in trace.notes


def test_vidur_and_lengths(tmp_path: Path) -> None:
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.25,10,3\n1e0,11,4\n"
    trace = load(put(tmp_path, text))
    assert (trace.format, trace.timed) == ("vidur", True)
    assert trace.arrival_ns.tolist() == [250_000_000, 1_000_000_000]
    text = "OUTPUT_tokens,arrived_at,prompt_tokens\n3,0.25,10\n4,1,11\n"  # nobody's in particular
    trace = load(put(tmp_path, text))
    assert (trace.format, trace.timed) == ("lengths", True)
    assert trace.arrival_ns.tolist() == [250_000_000, 1_000_000_000]
    text = "Num_Decode_Tokens,Num_Prefill_Tokens\n3,10\n"
    trace = load(put(tmp_path, text))
    assert (trace.format, trace.timed) == ("lengths", False)
    text = "prompt_len, output_len\n10,3\n11,4.0\n"
    trace = load(put(tmp_path, text))
    assert (trace.format, trace.timed) == ("lengths", False)
    assert trace.prompt.tolist() == [10, 11]
    assert trace.arrival_ns.tolist() == [0, 0]


def test_seconds_since_1970_are_counted_from_the_first(tmp_path: Path) -> None:
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n1700000000,1,1\n1700000002,1,1\n"
    assert load(put(tmp_path, text)).arrival_ns.tolist() == [0, 2_000_000_000]


def test_recorded_engine_trace(tmp_path: Path) -> None:
    request = {
        "arrival_step": 3,
        "prompt": [[100, 4], [7, 2]],
        "output_len": 5,
        "output_start": 900,
    }
    rows = [
        {"id": 0, **request},
        {"id": 1, **request, "salt": "b", "priority": 2},
        {"id": 2, **request, "salt": "a"},
        {"id": 3, **request, "salt": "b"},
    ]
    trace = load(put(tmp_path, json.dumps({"name": "gold", "requests": rows})))
    assert trace.name == "gold"
    assert trace.arrival_ns.tolist() == [3] * 4
    assert trace.prompt.tolist() == [6] * 4
    assert runs(trace, 0) == [(100, 4), (7, 2)]
    assert trace.output_token.tolist() == [900] * 4
    assert trace.salt.tolist() == [0, 1, 2, 1]
    assert trace.priority.tolist() == [0, 2, 0, 0]


@pytest.mark.parametrize("packer", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compression_is_told_by_content(tmp_path: Path, packer: object) -> None:
    assert callable(packer)
    trace = load(put(tmp_path, packer(AZURE.encode()), "chat.csv"))
    assert trace.sha256 == hashlib.sha256(AZURE.encode()).hexdigest()
    assert trace.name == "chat"


def test_two_zstd_frames_are_one_file(tmp_path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    data = pack(AZURE[:60].encode()) + pack(AZURE[60:].encode())
    assert len(load(put(tmp_path, data))) == 2


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(AZURE.encode())))
    assert load("-").name == "stdin"


def test_byte_order_mark_and_quotes(tmp_path: Path) -> None:
    text = '\ufeffTIMESTAMP,"ContextTokens",GeneratedTokens\n"2023-11-16 18:15:46",1,2\n'
    assert load(put(tmp_path, text)).output.tolist() == [2]


def test_limit_is_by_arrival(tmp_path: Path) -> None:
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n9,1,1\n1,2,1\n5,3,1\n"
    assert load(put(tmp_path, text), limit=2).prompt.tolist() == [2, 3]
    with pytest.raises(InputError, match="limit is 0"):
        load(tmp_path / "t", limit=0)


def test_polars_stays_out_until_it_is_needed() -> None:
    code = "import sys, pagedsim.trace; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_shared_azure(shared: Path) -> None:
    trace = load(shared / "traces/azure-2023/AzureLLMInferenceTrace_conv.csv")
    assert trace.sha256.startswith("2f1e5b666d4e")
    assert len(trace) == 19_366
    assert trace.arrival_ns[1] == 4_314_579_000
    assert (round(trace.prompt.mean()), round(trace.output.mean())) == (1155, 211)
    assert (trace.notes, trace.dropped) == ((), 0)


def test_shared_mooncake(shared: Path) -> None:
    trace = load(shared / "traces/mooncake/conversation_trace.jsonl")
    assert trace.sha256.startswith("b8cbb061a852")
    assert (len(trace), len(trace.run_token)) == (12_031, 288_500)
    assert (round(trace.prompt.mean()), round(trace.output.mean())) == (12_035, 343)
    last = trace.run_length[trace.run_rows[1:] - 1]
    assert int((last < 512).sum()) == 12_009
    assert len(np.unique(trace.arrival_ns)) == 1180


def test_shared_sharegpt_and_agent(shared: Path) -> None:
    trace = load(shared / "traces/sharegpt/sharegpt_V3_format_lens.csv")
    assert (len(trace), trace.timed) == (58_000, False)
    sessions = [load(p) for p in sorted((shared / "traces/coding-agent").glob("trace_*.json"))]
    assert [len(t) for t in sessions] == [46, 7, 37, 14, 32, 10]
    assert all((t.parent == np.arange(len(t)) - 1).all() for t in sessions)


def test_shared_recorded(shared: Path) -> None:
    for path in sorted((shared / "golden").glob("trace_*.json*")):
        trace = load(path)
        data = path.read_bytes()
        rows = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["requests"]
        assert len(trace) == len(rows)
        assert trace.output.tolist() == [row["output_len"] for row in rows]
        assert trace.output_token.tolist() == [row["output_start"] for row in rows]
        assert trace.arrival_ns.tolist() == [row["arrival_step"] for row in rows]
        assert runs(trace, 7) == [tuple(run) for run in rows[7]["prompt"]]
