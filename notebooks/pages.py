"""A hook of mkdocs: each notebook as a page of the site, its pictures beside it, its links kept.

Pages link to ``../notebooks/NAME.ipynb`` and notebooks to ``../docs/NAME.md``, as on GitHub; on the
site both are pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

FOLDER = Path(__file__).resolve().parent


def on_files(files: Files, *, config: Any) -> Files:
    """Add what is made of the notebooks."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        text, made = MarkdownExporter().from_filename(
            str(path), resources={"unique_key": path.stem}
        )
        text = re.sub(r"\]\(\.\./docs/(\S+?)\)", r"](../\1)", text)
        text = re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", text)
        # polars' frames, to look as the site's other tables do
        text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
        text = text.replace('<table border="1" class="dataframe">', "<table>")
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in made["outputs"].items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks lead to their pages."""
    return re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", r"](notebooks/\1.md)", markdown)
