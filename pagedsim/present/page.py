"""A run or a comparison as one HTML file that needs nothing else.

Numbers and bars are plain HTML; only series over time and distributions are drawn by a script, with
the plotly that came with its package. The page fetches nothing, and its content security policy
forbids it to: scripts run only if their hash is listed, so no text of a trace or a spec can become
one, and texts are escaped besides. The same result makes the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pagedsim.analysis.results import TERMS, Result
from pagedsim.files import write_whole
from pagedsim.present import answer, formats
from pagedsim.present.definitions import DEFINITIONS
from pagedsim.present.labels import labels
from pagedsim.present.numbers import bytes_, count, per_cent, plain, requests, significant
from pagedsim.present.page_data import series
from pagedsim.present.page_table import facts, table
from pagedsim.present.palette import COLORS, IDLE_DARK, ON_TERMS, SEQUENCE_COLORS, line

if TYPE_CHECKING:
    from pagedsim.analysis.report import Report


SHORT = 26  # characters of a run's name where it is said again and again


def page(
    result: Result, reports: Sequence[Report], pool_map: Mapping[str, Any] | None = None
) -> str:
    """The whole file as text; `reports` are those that `result` was made of, in its order.

    `pool_map`: what a memory map is made from (`memory_map.section`), or why there is none.
    """
    made = environment()
    data = json.dumps({"runs": series(reports)}, separators=(",", ":"), allow_nan=False)
    pool_map = {"shows": "", **(pool_map or {})}
    scripts = [plotly(), source("report.js"), *map(str, pool_map.get("map_scripts", ()))]
    return made.get_template("report.html").render(
        result=result,
        runs=result.runs,
        terms=max((run.memory.terms for run in result.runs), key=len, default=TERMS),
        short=labels([run.name for run in result.runs], SHORT),
        sentence=answer.sentence(result.runs),
        cards=answer.cards(result.runs),
        warnings=answer.warnings(result),
        table=table(result.runs),
        facts=[facts(run) for run in result.runs],
        commands=list(dict.fromkeys(r.provenance.command for r in result.runs)),
        definitions=DEFINITIONS,
        style=Markup(source("report.css") + source("map.css")),
        scripts=[Markup(script) for script in scripts],
        policy=policy(scripts),
        data=inert(data),
        **pool_map,
    )


def save(
    result: Result,
    reports: Sequence[Report],
    path: str | os.PathLike[str],
    pool_map: Mapping[str, Any] | None = None,
) -> None:
    """Write the page whole or not at all."""
    formats.suffix(path, formats.PAGES)
    text = page(result, reports, pool_map)
    with write_whole(path) as file:
        file.write(text.encode())


def environment() -> Environment:
    """Templates of this folder: everything that is put into one is escaped."""
    made = Environment(
        loader=PackageLoader("pagedsim.present", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "bytes": bytes_,
        "count": count,
        "per_cent": per_cent,
        "plain": _plain,
        "requests": requests,
        "significant": significant,
    }
    made.filters |= filters
    made.globals |= {
        "COLORS": COLORS,
        "ON_TERMS": ON_TERMS,
        "IDLE_DARK": IDLE_DARK,
        "SEQUENCE_COLORS": SEQUENCE_COLORS,
        "line": line,
    }
    return made


def _plain(text: str) -> str:
    return plain(text, 400)


def policy(scripts: Sequence[str]) -> str:
    """A content security policy: these inline scripts, inline styles, and nothing else."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def inert(data: str) -> Markup:
    """JSON that cannot end the element that it stands in."""
    for char in "<>&\u2028\u2029":
        data = data.replace(char, f"\\u{ord(char):04x}")
    return Markup(data)


def source(name: str) -> str:
    """A style or script of this folder."""
    return resources.files("pagedsim.present").joinpath("templates", name).read_text("utf-8")


def plotly() -> str:
    """The library's script, as its package has it."""
    text = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    assert "</script" not in text.lower(), "plotly's script cannot stand in a page"
    return text


__all__ = ["environment", "inert", "page", "plotly", "policy", "save", "source"]
