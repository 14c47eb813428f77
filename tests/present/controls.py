"""The lesson's controls, moved as a hand would, and the numbers that a section then shows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

from pagedsim.present.numbers import bytes_

SET = """
const set = (id, wanted) => {
  const control = document.getElementById(id);
  if (control.tagName === "FIELDSET") {
    const radios = [...control.querySelectorAll("input")];
    const radio = radios.find((each) => each.value === String(wanted));
    radio.checked = true;
    radio.dispatchEvent(new Event("input", { bubbles: true }));
    return;
  }
  const stops = control.dataset.stops?.split(",").map(Number);
  const value = String(stops ? stops.indexOf(wanted) : wanted);
  control.value = value;
  if (control.value !== value) throw Error(`${id} cannot be ${wanted}`);
  control.dispatchEvent(new Event("input", { bubbles: true }));
};
const [id, settings] = arguments;
const places = [...document.querySelectorAll(`[data-thing=${id}] [data-number]`)];
return settings.map((setting) => {
  for (const [name, wanted] of setting) set(`${id}-${name}`, wanted);
  return Object.fromEntries(places.map((place) => [
    place.dataset.number.slice(id.length + 1), [place.dataset.exact ?? "null", place.textContent],
  ]));
});
"""


def shown(page: Any, section: str, settings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The numbers of a section after each of `settings`: (exact, text) by name."""
    given = [list(setting.items()) for setting in settings]
    found = page.execute_script(SET, section, given)
    return [{k: (json.loads(e), t) for k, (e, t) in each.items()} for each in found]


def some(settings: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The first, the last, and others of them: drawing each takes its time."""
    middle = random.Random(2).sample(settings[1:-1], min(count, len(settings) - 2))
    return [settings[0], *middle, settings[-1]]


def said(value: int) -> tuple[int, str]:
    return value, f"{value:,}"


def in_bytes(value: Any) -> tuple[int, str]:
    assert value == int(value)
    return int(value), bytes_(int(value))
