"""Run notebooks from the top, as Jupyter does, and keep what they say and nothing of the machine.

    python notebooks/execute.py [NOTEBOOK...]      # writes the outputs; without names, of all

Sliders live only where a kernel runs, so what is kept of them is what they show at their first
positions. Needs the extra ``pagedsim[notebooks]``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from pagedsim.files import write_whole

FOLDER = Path(__file__).resolve().parent
VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# For the kernel, before the first cell: nothing outside can be reached.
OFFLINE = """
def _offline(*_):
    raise AssertionError("a notebook went to the network")
__import__("socket").socket.connect = _offline
del _offline
"""


def notebooks() -> list[Path]:
    """Those of this folder."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path, *, last: str = "") -> NotebookNode:
    """The notebook, not written, as it is run now; CellExecutionError where a cell fails.

    `last` is run after its cells and is no part of it; it must not fail either.
    """
    notebook = copy.deepcopy(nbformat.read(path, as_version=4))
    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook, kernel_name="python3", timeout=120, record_timing=False, resources=place
    )
    with client.setup_kernel():
        client.kc.execute(OFFLINE, silent=True, store_history=False)
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        if last:
            notebook.cells.append(nbformat.v4.new_code_cell(last))
            client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
            notebook.cells.pop()
    for cell in notebook.cells:
        cell.metadata = NotebookNode(
            {key: cell.metadata[key] for key in cell.metadata.keys() & {"tags"}}
        )
        if cell.cell_type == "code":
            cell.outputs = [
                NotebookNode(kept)
                for output in cell.outputs
                for kept in shown(output, client.widget_state)
            ]
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    return notebook


def shown(output: Mapping[str, Any], widgets: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The output itself, or, of a widget, what the outputs inside it show."""
    if VIEW not in output.get("data", {}):
        yield output
        return
    waiting = [output["data"][VIEW]["model_id"]]
    while waiting:
        state = widgets[waiting.pop(0)]
        for inner in state.get("outputs", []):
            yield from shown(inner, widgets)
        waiting += [child.removeprefix("IPY_MODEL_") for child in state.get("children", [])]


def main(names: list[str]) -> None:
    """Run each and write it, whole or not at all."""
    for path in map(Path, names) if names else notebooks():
        text = nbformat.writes(execute(path.resolve()))
        with write_whole(path) as file:
            file.write(text.encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
