"""Pages as the tests read them: elements, texts and attributes, without a browser."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from typing import Any

import numpy as np

NASTY = "<img src=x onerror=document.title='owned'>"
VOID = {"meta", "link", "img", "input", "br", "line"}


class Element(dict[str, str]):
    """Attributes of an element, its tag and the text in it."""

    def __init__(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        super().__init__({name: value or "" for name, value in attributes})
        self.tag, self.text = tag, ""


class Page(HTMLParser):
    """All elements of a page, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, [each.tag for each in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, attrs)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def of(self, tag: str) -> list[Element]:
        return [each for each in self.elements if each.tag == tag]

    @property
    def data(self) -> Any:
        """What the page's script is given."""
        (found,) = [each for each in self.of("script") if each.get("id") == "data"]
        return json.loads(found.text)


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def at_path(found: Any, path: str) -> Any:
    for name in path.split("."):
        found = found[name]
    return found
