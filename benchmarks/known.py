"""Write ``known.toml`` anew: the work of the replays that the other benchmarks measure.

The whole Azure and Mooncake hours, given as TRACE, the bundled chat trace, and generated ones. Run
it when the fast engine jumps further or less far: only windows may then differ from what is there,
and an AssertionError says where anything else does.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import SATURATED, Settings, Work, done, entries, replay, same

from pagedsim.trace import load

PLACE = Path(__file__).with_name("known.toml")
LONG = 131_072  # maximum length where prompts are long


def asked(trace: Any) -> list[Settings]:
    """How a trace from a file is replayed."""
    specs = ("constant:ms=30", "roofline")
    if trace.format == "mooncake":
        return [Settings(spec, 0, "paged:block=16,prefix=on", LONG) for spec in specs]
    return [Settings(spec, pool) for pool in (0, SATURATED) for spec in specs]


def inline(values: dict[str, Any]) -> str:
    """A TOML table in a line."""
    words = (
        f'{key} = "{v}"' if isinstance(v, str) else f"{key} = {v}" for key, v in values.items()
    )
    return "{ " + ", ".join(words) + " }"


def entry(trace: Any, settings: Settings) -> str:
    """One replay, which may differ from what is known in its windows only."""
    work = done(trace, replay(trace, settings)[1])
    for one in entries():
        if same(one, trace, settings):
            said = Work(**one["work"])
            assert work._replace(windows=said.windows) == said, f"{settings}: {work}, known {said}"
    print(f"{trace.name}, {len(trace):,} requests, {settings}: {work}")
    lines = (
        "[[replay]]",
        f'name = "{trace.name}"',
        f'sha256 = "{trace.sha256}"',
        f"requests = {len(trace)}",
        f"settings = {inline(settings._asdict())}",
        f"work = {inline(work._asdict())}",
    )
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Replay and write."""
    import engines
    import growth

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="the Azure and Mooncake hours")
    parser.add_argument("--sizes", default=growth.SIZES, help=f"generated  [{growth.SIZES}]")
    parser.add_argument("--to", type=Path, default=PLACE, help="write another file")
    options = parser.parse_args(argv)
    found = [entry(load("chat"), Settings("constant:ms=30"))]
    first = load("chat", limit=engines.FIRST)
    modes = [Settings("roofline", 0, f"paged:groups={mode}") for mode in engines.GROUPS]
    found += [entry(first, settings) for settings in modes]
    for path in options.traces:
        trace = load(path)
        found += [entry(trace, settings) for settings in asked(trace)]
    for word in options.sizes.split(","):
        found.append(entry(growth.generated(int(word)), Settings("roofline")))
    head = PLACE.read_text(encoding="utf-8").partition("\n\n")[0]
    options.to.write_text("\n".join((head + "\n", *found)), encoding="utf-8")


if __name__ == "__main__":
    main()
