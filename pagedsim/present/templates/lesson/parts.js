"use strict";
// What every section is made of: values of controls, numbers that are shown, drawings, progress.
const parts = (() => {
  const { numbers, texts, words } = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const find = (id) => document.getElementById(id);
  const moved = new Set();

  // The value of a control: a range's (its stop's, where it has some), a list's or a choice's.
  function value(id) {
    const control = find(id);
    if (control.tagName === "FIELDSET") return control.querySelector("input:checked").value;
    if (control.type !== "range") return control.value;
    if (control.dataset.stops === undefined) return Number(control.value);
    return Number(control.dataset.stops.split(",")[Number(control.value)]);
  }

  // A text of the catalogue with its {names} filled in.
  function text(key, filled = {}) {
    return texts[key].replace(/\{(\w+)\}/g, (_, name) => filled[name]);
  }

  // Show a number; its exact value stands beside the text, for whoever compares.
  function say(name, exact, shown) {
    const place = document.querySelector(`[data-number="${name}"]`);
    place.dataset.exact = JSON.stringify(exact);
    if (place.textContent !== shown) place.textContent = shown;
  }

  function element(tag, attributes = {}, children = []) {
    const made = document.createElement(tag);
    return filled(made, attributes, children);
  }

  function drawn(tag, attributes = {}, children = []) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
  }

  function filled(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...[children].flat());
    return made;
  }

  // A drawing as wide as its place, in pixels, so that its letters keep their size.
  function picture(id, height, label, draw) {
    const place = find(id);
    const width = Math.max(240, place.clientWidth);
    const box = [0, 0, width, height].join(" ");
    const svg = drawn("svg", { viewBox: box, width, height, role: "img", "aria-label": label });
    draw(svg, width, height);
    place.replaceChildren(svg);
  }

  function letters(svg, x, y, words, attributes = {}) {
    svg.append(drawn("text", { x, y, ...attributes }, [words]));
  }

  // Round steps that cut 0 … most into about `count` parts.
  function ticks(most, count) {
    const raw = most / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= raw);
    const found = [];
    for (let at = 0; at <= most * (1 + 1e-9); at += step) found.push(at);
    return found;
  }

  function powers(low, high) {
    const found = [];
    for (let at = Math.ceil(Math.log10(low) - 1e-9); at <= Math.log10(high) + 1e-9; at += 1) found.push(10 ** at);
    return found;
  }

  // 1.5k, 2M, 3·10⁹: beyond millions there is no letter that everyone knows.
  function short(value) {
    if (value >= 1e9) {
      const power = Math.floor(Math.log10(value) + 1e-9);
      const above = [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
      const times = Number((value / 10 ** power).toPrecision(3));
      return times === 1 ? `10${above}` : `${times}·10${above}`;
    }
    for (const [unit, name] of [[1e6, "M"], [1e3, "k"]]) {
      if (value >= unit) return `${Number((value / unit).toPrecision(3))}${name}`;
    }
    return String(Number(value.toPrecision(3)));
  }

  // Axes of a chart: x and y are {low, high, log, name}; returns where a value lies.
  function axes(svg, width, height, x, y) {
    const inner = { left: 52, right: width - 14, top: 22, bottom: height - 40 };
    const along = (axis, value) => (axis.log
      ? Math.log(Math.max(value, axis.low) / axis.low) / Math.log(axis.high / axis.low)
      : (value - axis.low) / (axis.high - axis.low));
    const at = {
      inner,
      x: (value) => inner.left + along(x, value) * (inner.right - inner.left),
      y: (value) => inner.bottom - along(y, value) * (inner.bottom - inner.top),
    };
    const many = Math.max(2, Math.min(8, Math.floor(width / 95)));
    for (const value of y.log ? powers(y.low, y.high) : ticks(y.high, height < 200 ? 2 : 5)) {
      svg.append(drawn("line", { x1: inner.left, x2: inner.right, y1: at.y(value), y2: at.y(value), class: "rule" }));
      letters(svg, inner.left - 6, at.y(value) + 4, short(value), { "text-anchor": "end" });
    }
    for (const value of x.log ? powers(x.low, x.high) : ticks(x.high, many)) {
      svg.append(drawn("line", { x1: at.x(value), x2: at.x(value), y1: inner.bottom, y2: inner.bottom + 4, class: "rule" }));
      letters(svg, at.x(value), inner.bottom + 17, short(value), { "text-anchor": "middle" });
    }
    letters(svg, inner.left, 12, y.name, { class: "name" });
    letters(svg, inner.right, height - 5, x.name, { class: "name", "text-anchor": "end" });
    return at;
  }

  function line(svg, points, kind) {
    const path = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    svg.append(drawn("path", { d: path, class: `line ${kind}` }));
  }

  function area(svg, points, kind) {
    const path = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    svg.append(drawn("path", { d: `${path}Z`, class: `area ${kind}` }));
  }

  // Ranges say their value beside them and to whoever cannot see them.
  function echo(control) {
    const said = formulas.whole(value(control.id));
    find(`${control.id}-value`).textContent = said;
    control.setAttribute("aria-valuetext", said);
  }

  function count() {
    find("moved").textContent = text("moved", { count: moved.size });
  }

  // A section: `draw` is called now, whenever a control of it moves, and when its width changes.
  function thing(id, draw) {
    const place = document.querySelector(`[data-thing="${id}"]`);
    const again = () => {
      for (const control of place.querySelectorAll("input[type=range]")) echo(control);
      draw();
    };
    const touched = () => {
      moved.add(id);
      document.querySelector(`nav a[href="#${id}"]`).parentElement.classList.add("done");
      count();
      again();
    };
    place.addEventListener("input", touched);
    let width = place.clientWidth;
    new ResizeObserver(() => {
      if (place.clientWidth !== width) { width = place.clientWidth; again(); }
    }).observe(place);
    again();
    return touched;
  }

  // A range or a list set from elsewhere, as if it had been moved.
  function set(id, wanted) {
    const control = find(id);
    const stops = control.dataset.stops?.split(",").map(Number);
    control.value = stops ? stops.indexOf(wanted) : wanted;
  }

  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) {
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(target.id).setAttribute("aria-current", "true");
      }
    }
  }, { rootMargin: "-30% 0px -60% 0px" });
  for (const id of links.keys()) seen.observe(find(id));
  count();

  return {
    numbers, words, text, value, say, find, element, drawn, picture, letters, axes, line, area, thing, set, ticks,
  };
})();
