"""``pagedsim trace from``: people's own logs as a trace, without their text."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pagedsim.cli.values import Json, NoColor, Quiet, counted, option
from pagedsim.errors import SpecError


def from_(
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG", help="files or folders, - for standard input")
    ],
    out: Annotated[
        str,
        option("--out", "-o", metavar="FILE", help="NAME.jsonl, .jsonl.gz, .jsonl.zst, .parquet"),
    ],
    mapped: Annotated[
        list[str] | None,
        option("--map", metavar="FIELD=NAME", help="where a field stands: prompt_tokens=in"),
    ] = None,
    time_unit: Annotated[
        str | None, option("--time-unit", metavar="s|ms|us|ns", help="of times that are numbers")
    ] = None,
    tokenizer: Annotated[
        str | None,
        option("--tokenizer", metavar="FILE", help="tokenizer.json or a tiktoken file"),
    ] = None,
    chat_template: Annotated[
        str | None,
        option("--chat-template", metavar="FILE", help="Jinja, or a tokenizer_config.json"),
    ] = None,
    block: Annotated[int, counted("--block", most=1 << 16, help="tokens of a hashed block")] = 16,
    hash_block: Annotated[
        int | None, counted("--hash-block", most=1 << 16, help="tokens of a block in hash_ids")
    ] = None,
    skip_bad: Annotated[
        bool, option("--skip-bad", help="leave out what cannot be read, and count it")
    ] = False,
    drop_duplicates: Annotated[
        bool, option("--drop-duplicates", help="leave out requests that are there twice")
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> None:
    """Make a trace of request logs: lengths, times, conversations and shared prefixes, no text."""
    from pagedsim.cli.outputs import apart
    from pagedsim.cli.trace import report, written
    from pagedsim.present.progress import Progress
    from pagedsim.trace import store
    from pagedsim.trace.logs import read

    store.check(out)
    choices = read.Choices(
        mapping=_mapping(mapped or []),
        unit=time_unit,
        block=block,
        hash_block=hash_block,
        tokenizer=tokenizer,
        chat_template=chat_template,
        skip_bad=skip_bad,
        drop_duplicates=drop_duplicates,
    )
    choices.check()
    apart(out, json)
    with Progress(read.size(logs), "reading logs", bytes_=True, no_color=no_color) as bar:
        found = read.from_logs(logs, choices, progress=bar)
    store.write(found.trace, out)
    facts = {
        **written(found.trace, out),
        "recognised": [
            {"file": f.file, "format": f.format, "requests": f.requests, "names": f.names}
            for f in found.files
        ],
        "skipped": found.skipped,
        "skipped_first": found.skipped_first,
    }
    report(facts, json, _lines, quiet=quiet or out == "-", no_color=no_color)


def _mapping(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        field, sign, name = word.partition("=")
        if not sign or not field.strip() or not name.strip():
            raise SpecError(f"--map is {word}, must be FIELD=NAME, such as prompt_tokens=in")
        found[field.strip()] = name.strip()
    return found


def _lines(found: dict[str, Any], console: Any) -> None:
    from pagedsim.cli.trace import written_line
    from pagedsim.present.numbers import plain, requests

    files = found["recognised"]
    for each in files[:8]:
        names = f" ({each['names']})" if each["names"] else ""
        text = f"{each['file']}: {each['format']}, {requests(each['requests'])}{names}"
        console.print(plain(text, 400))
    if len(files) > 8:
        console.print(f"… and {len(files) - 8:,} more files")
    written_line(found, console)
    for place in found["skipped_first"]:
        console.print(f"left out: {plain(place, 300)}")


__all__ = ["from_"]
