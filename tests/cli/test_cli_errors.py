"""What a stranger gets wrong: a line with place, value and bound, exit code 2, nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import pagedsim, refused

pytestmark = pytest.mark.usefixtures("folder")

_FILES = ("--json", "o.json", "--series", "s.parquet", "--requests", "r.parquet")

_COUNTS = {
    "--tp": 1,
    "--pp": 1,
    "--kv-tokens": 1,
    "--kv-blocks": 1,
    "--kv-cache-memory-bytes": 1,
    "--max-len": 2,
    "--max-seqs": 1,
    "--max-batched-tokens": 1,
    "--limit": 1,
    "--concurrency": 1,
    "--seed": 0,
    "--seeds": 1,
}


@pytest.mark.parametrize(("option", "least"), _COUNTS.items())
def test_counts_have_bounds(option: str, least: int) -> None:
    for word in (str(least - 1), "-7", "nan", "inf", "1.5", "1e3", "", "eight", "0x10", "8q"):
        said = refused("replay", "t.csv", *_FILES, option, word)
        assert said == f"error: {option} is {word}, must be a whole number >= {least}"
    said = refused("replay", "t.csv", *_FILES, option, "9" * 30)
    assert said.startswith(f"error: {option} is {'9' * 30}, must be a whole number <= ")
    assert "must be a whole number" in refused("replay", "t.csv", *_FILES, option, "9" * 5000)


@pytest.mark.parametrize("option", ["--rate", "--rate-scale", "--utilization"])
def test_measures_have_bounds(option: str) -> None:
    for word in ("0", "-1", "nan", "inf", "-inf", "", "fast", "1e999"):
        said = refused("compare", "t.csv", *_FILES, option, word)
        assert said.startswith(f"error: {option} is {word}, must be a number > 0")
    if option == "--utilization":
        assert refused("compare", "t.csv", option, "1.01").endswith("must be a number > 0 and <= 1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--arrivals later", "--arrivals is later, must be recorded or saturate"),
        ("--zero-output keep", "--zero-output is keep, must be drop or error"),
        ("--engine slow", "--engine is slow, must be fast or reference"),
        ("--tp 3", "Llama-3.1-8B: tp 3 does not divide 8 KV heads"),
        ("--model nosuch", "unknown model 'nosuch'; there are: "),
        ("--gpu nosuch", "unknown GPU 'nosuch'; there are: "),
        ("--kv-dtype nosuch", "unknown KV dtype 'nosuch'; there are: "),
        ("--engine-log nosuch", "nosuch: cannot be read: No such file or directory"),
        ("--engine-log t.csv", "t.csv: states no KV blocks or tokens; looked for "),
        ("--kv-tokens 99 --kv-blocks 9", "--kv-tokens and --kv-blocks all say how large the pool"),
        ("--kv-tokens 15", "--kv-tokens: a pool of 15 tokens holds no block of 16"),
        ("--kv-blocks 1", "paged: a pool of 1 blocks (null 1) has none to give"),
        ("--kv-blocks 99999999999", "paged:block=16: 99,999,999,999 blocks, must be <= 67,108,864"),
        ("--rate 1 --concurrency 2", "--rate and --concurrency contradict each other: give one"),
        ("--rate 1 --arrivals recorded", "--rate and --arrivals recorded contradict each other"),
        ("--seeds 3", "--seeds is 3, but only generated arrivals differ: give --rate as well"),
        ("--rate 1e-300", "generated arrivals would pass 4e9 s"),
        ("--rate-scale 1e-30", "rate scale is 1e-30: times would pass 2^62 ns"),
        ("--window 5:1", "window '5:1': ends at 1 s, must be after 5 s"),
        ("--window 1e5:", "window '100000:': no step runs in it; the last step ends at"),
        ("--window soon", "window 'soon': must be A:B in seconds"),
        ("--window :", "window ':': must be A:B in seconds"),
        ("--window nan:", "window 'nan:': nan s must be >= 0 and finite"),
        ("--window -1:2", "window '-1:2': -1 s must be >= 0 and finite"),
        ("--window steady", "window steady: no step was blocked"),
        ("--steptime roofline:overhead_ms=1e300", "a step of 1.00e+306 ns, must be <= 922337203"),
        ("--scheduler vlm", "vlm: there is no scheduler 'vlm' (did you mean vllm?)"),
        ("--scheduler vllm:max_seqs=abc", "vllm:max_seqs=abc: max_seqs is 'abc', must be a whole"),
        ("--scheduler vllm:max_seqs=0", "vllm: max_seqs is 0, must be a whole number >= 1"),
        ("--scheduler vllm:max_seqs=4 --max-seqs 5", "--max-seqs is 5, but max_seqs is 4 in"),
        ("--scheduler vllm:chunked=0", "vllm: with chunked=0 max_batched_tokens is 2048, must be"),
        ("--steptime rooflin", "rooflin: there is no step time 'rooflin' (did you mean roofline?)"),
        ("--steptime constant", "constant: constant needs ms"),
        ("--steptime table:", "table: give the file, as in table:steps.csv"),
        ("--steptime table:nosuch.csv", "nosuch.csv: cannot be read: No such file or directory"),
        ("--steptime table:t.csv", "t.csv:1: column 'sequences' is missing"),
        ("--allocator pagd", "pagd: there is no allocator 'pagd' (did you mean paged?)"),
        ("--allocator paged:blok=1", "paged:blok=1: paged has no option 'blok'; it has block, "),
        (
            "--allocator paged:prefix=on,evit=lru",
            "paged:prefix=on,evit=lru: paged has no option 'evit'; it has block, null, "
            "free_order, prefix, evict",
        ),
        ("--allocator nosuch:Class", "nosuch:Class: nosuch cannot be imported: "),
        ("--limt 5", "no such option: --limt"),
        ("--nothing-like-it", "no such option: --nothing-like-it; there are --allocator, --arr"),
        ("more", "got unexpected extra argument(s) (more)"),
    ],
)
def test_wrong_words(words: str, message: str) -> None:
    said = refused("replay", "t.csv", *_FILES, *words.split())
    assert said.startswith(f"error: {message}")


def test_a_pool_that_cannot_hold_the_maximum_length_says_what_to_do() -> None:
    said = refused("compare", "t.csv", *_FILES, "--kv-tokens", 4096)
    for words in ("max_len 16384 needs one extent of 16384", "is 4096", "--max-len", "--kv-tokens"):
        assert words in said


def test_the_last_allocator_is_checked_before_the_first_runs() -> None:
    many = ["--allocator", "paged", "--allocator", "contiguous", "--allocator", "slots:n=0"]
    assert "slots:n=0: n must be >= 1" in refused("compare", "t.csv", *_FILES, *many)


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ("nosuch.csv", "nosuch.csv: no such file"),
        ("nosuch", "nosuch: no such file, and no trace of that name; there are: agent, chat, "),
        (".", ".: is a folder, a trace file is needed"),
        ("", ": no such file"),
    ],
)
def test_traces_that_are_none(trace: str, message: str) -> None:
    assert refused("compare", trace, *_FILES).startswith(f"error: {message}")


def test_a_bad_row_is_named(folder: Path) -> None:
    (folder / "chat.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,-4,5\n"
    )
    assert refused("compare", "chat.csv", *_FILES) == (
        "error: chat.csv:2: ContextTokens is -4, must be >= 1"
    )


def test_lengths_without_times_need_a_load(folder: Path) -> None:
    (folder / "l.csv").write_text("num_prefill_tokens,num_decode_tokens\n5,6\n7,8\n")
    said = refused("replay", "l.csv", *_FILES)
    for option in ("--rate", "--arrivals saturate", "--concurrency"):
        assert option in said
    for load in (("--rate", 2), ("--arrivals", "saturate"), ("--concurrency", 1)):
        assert pagedsim("replay", "l.csv", *load).code == 0


@pytest.mark.parametrize("option", ["--json", "--series", "--series-steps", "--requests"])
def test_files_that_cannot_be_written_are_found_first(option: str, folder: Path) -> None:
    (folder / "there").mkdir()
    os.mkfifo(folder / "pipe")
    for target, message in (
        ("there", "there: is a folder, a file name is needed"),
        ("none/x", "none/x: cannot be written: there is no folder "),
        ("pipe", "pipe: is no plain file, so it cannot be written whole"),
        ("", f"{option}: nothing is given, a file name is needed"),
        ("t.csv", f"{option}: t.csv is the trace as well: give another name"),
    ):
        assert refused("replay", "t.csv", option, target).startswith(f"error: {message}")
    if option != "--json":
        assert "a file name is needed" in refused("replay", "t.csv", option, "-")
        said = refused("replay", "t.csv", option, "x", "--json", "./x")
        assert said == f"error: --json: ./x is {option} as well: give another name"


def test_a_link_is_followed(folder: Path) -> None:
    (folder / "real.json").write_text("old")
    (folder / "link.json").symlink_to("real.json")
    assert pagedsim("replay", "t.csv", "--json", "link.json").code == 0
    assert (folder / "link.json").is_symlink()
    assert "pagedsim.result/1" in (folder / "real.json").read_text()


@pytest.mark.parametrize("words", ["", "replay", "nosuch", "--nosuch", "compare --model"])
def test_commands_that_are_none(words: str) -> None:
    said = pagedsim(*words.split())
    assert said.code == (2 if words else said.code)
    assert "Traceback" not in said.err
