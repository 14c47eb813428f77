"use strict";
// The map's controls: plays the lanes on one clock, says what happened, and shows a sequence whole.
(() => {
  const root = document.getElementById("map");
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const { scene, terms } = data;
  const one = (selector, inside = root) => inside.querySelector(selector);
  const seconds = (ns) => (ns / 1e9).toLocaleString("en-US", { maximumFractionDigits: scene.to_ns - scene.from_ns < 1e8 ? 6 : 3 });
  const lanes = scene.lanes.map((lane, index) => {
    const box = one(`.map-lane[data-lane="${index}"]`);
    const state = new LaneState(lane);
    return { lane, box, state, drawing: new PoolDrawing(one("canvas", box), state, data), said: "" };
  });
  const ticks = [...new Set(scene.lanes.flatMap((lane) => lane.frames.map((frame) => frame.start_ns)))].sort((a, b) => a - b);
  const events = [];
  scene.lanes.forEach((lane, index) => lane.frames.forEach((frame) => {
    for (const said of frame.said ?? []) if (!said.again) events.push({ at: frame.start_ns, lane: index, said });
  }));
  events.sort((a, b) => a.at - b.at || a.lane - b.lane);
  const marked = new Set(events.filter((event) => event.said.kind !== "arrives").map((event) => event.at));
  const tail = ticks.length > 1 ? (ticks.at(-1) - ticks[0]) / (ticks.length - 1) : 1;
  const strip = new StripDrawing(one(".map-strip canvas"), data, Math.max(scene.to_ns, ticks.at(-1) + tail));

  const MOST = 6; // lines of a caption
  const GRAVE = new Set(["refused", "waits", "preempted"]);
  let at = 0; // the tick that is shown
  let chosen = -1; // a request
  let timer = 0;

  // What is shown.

  function show(tick, { quiet = false } = {}) {
    at = Math.max(0, Math.min(ticks.length - 1, tick));
    const now = ticks[at];
    for (const each of lanes) {
      each.state.seek(each.state.indexAt(now));
      each.drawing.draw(chosen);
      tell(each, now, quiet);
    }
    strip.draw(now);
    one("[data-clock]").textContent = seconds(now);
    one("[data-tick]").textContent = `${count(at + 1)} of ${count(ticks.length)}`;
    const slider = one(".map-strip");
    slider.setAttribute("aria-valuemax", String(ticks.length - 1));
    slider.setAttribute("aria-valuenow", String(at));
    slider.setAttribute("aria-valuetext", `${seconds(now)} seconds, ${at + 1} of ${ticks.length}`);
    if (chosen >= 0) explain();
  }

  function tell(each, now, quiet) {
    const { box, lane, state } = each;
    const frame = state.frame;
    const values = frame ? frame.terms : [0, 0, 0, 0, 0, lane.capacity];
    terms.forEach((term, place) => {
      const cell = one(`[data-term="${term}"]`, box);
      cell.textContent = count(values[place]);
      cell.parentElement.classList.toggle("none", values[place] === 0);
    });
    const waiting = (frame && frame.waiting) || 0;
    const queue = (frame && frame.queue) || [];
    const more = waiting > queue.length ? ", …" : "";
    one("[data-state]", box).textContent = !frame || frame.step === undefined
      ? "Nothing runs."
      : `${count(frame.running ?? 0)} running · ${waiting ? `${count(waiting)} waiting: ${queue.join(", ")}${more}` : "nobody waits"}`;
    chips(each);
    const fresh = frame && frame.start_ns === now;
    const said = (fresh && frame.said) || (frame ? (frame.said ?? []).filter((line) => line.kind === "refused" || line.kind === "waits") : []);
    const key = `${state.at} ${fresh}`;
    if (key === each.said) return;
    each.said = key;
    const out = one(".map-said", box);
    out.setAttribute("aria-live", quiet ? "off" : "polite");
    const lines = foremost(said).map((line) => made("p", `map-line map-is-${line.kind}${line.again ? " again" : ""}`, line.text));
    if (said.length > MOST) lines.push(made("p", "map-line", `… and ${count(said.length - MOST)} more.`));
    if (!lines.length && frame && frame.step !== undefined) {
      lines.push(made("p", "map-line again", working(frame)));
    }
    out.replaceChildren(...lines);
  }

  // What there is room for, in its order: refusals and preemptions are never left out for others.
  function foremost(said) {
    const grave = said.filter((line) => GRAVE.has(line.kind)).slice(0, MOST);
    const others = said.filter((line) => !GRAVE.has(line.kind)).slice(0, MOST - grave.length);
    const shown = new Set([...grave, ...others]);
    return said.filter((line) => shown.has(line));
  }

  function working({ decodes = 0, prefills = 0 }) {
    const words = [];
    if (decodes) words.push(`${count(decodes)} write${decodes === 1 ? "s" : ""} a token${decodes === 1 ? "" : " each"}`);
    if (prefills) words.push(`${count(prefills)} compute${prefills === 1 ? "s its" : " their"} prompt${prefills === 1 ? "" : "s"}`);
    return words.length ? `${words.join(", ")}.` : "Nobody computes.";
  }

  // A button for each sequence that holds slots; they stay the same as long as the sequences do.
  function chips(each) {
    const out = one(".map-chips", each.box);
    const held = [...each.state.holders.keys()];
    const key = `${held.join(" ")} ${chosen}`;
    if (out.dataset.key === key) return;
    const focused = out.contains(document.activeElement) ? document.activeElement.dataset.request : undefined;
    out.dataset.key = key;
    out.replaceChildren(...held.map((index) => {
      const holder = each.lane.holders[index];
      const chip = made("button", "map-chip", String(holder.request) + (holder.sample ? `.${holder.sample}` : ""));
      chip.type = "button";
      chip.dataset.request = String(holder.request);
      chip.style.setProperty("--chip", data.colors[data.color_of[holder.request]]);
      chip.setAttribute("aria-pressed", String(holder.request === chosen));
      chip.setAttribute("aria-label", `Request ${holder.request}`);
      return chip;
    }));
    if (focused !== undefined) one(`[data-request="${focused}"]`, out)?.focus();
  }

  // The sequence that is chosen, in every lane.
  function explain() {
    const out = one(".map-chosen");
    out.hidden = chosen < 0;
    if (chosen < 0) return;
    const known = lanes.flatMap(({ lane }) => lane.holders).find((holder) => holder.request === chosen);
    const head = made("h2", "", `Request ${chosen}`);
    if (known) head.style.setProperty("--chip", data.colors[data.color_of[chosen]]);
    const close = made("button", "map-close", "Let go");
    close.type = "button";
    const facts = made("p", "note", known
      ? `Prompt ${count(known.prompt)} tokens, output ${count(known.output)}; stores ${count(known.final)} at its largest, for the last token’s KV is never needed. Arrived at ${seconds(known.arrival_ns)} s.`
      : "");
    const columns = made("div", "map-both");
    columns.append(...lanes.map((each) => sequenceIn(each, chosen, ticks[at])));
    out.replaceChildren(head, close, facts, columns);
  }

  // What is done.

  const wait = () => 1000 / Number(one(".map-speed select").value);

  function play(on) {
    clearTimeout(timer);
    timer = 0;
    if (on && at === ticks.length - 1) show(0, { quiet: true });
    const next = () => {
      show(at + 1, { quiet: true });
      if (at === ticks.length - 1) play(false);
      else timer = setTimeout(next, wait());
    };
    if (on) timer = setTimeout(next, wait());
    one(".map-play").classList.toggle("on", Boolean(on));
    one(".map-word").textContent = on ? "Pause" : "Play";
  }

  function choose(request) {
    chosen = chosen === request ? -1 : request;
    show(at);
    explain();
  }

  function speed(by) {
    const select = one(".map-speed select");
    select.selectedIndex = Math.max(0, Math.min(select.options.length - 1, select.selectedIndex + by));
  }

  function go(tick) {
    play(false);
    show(tick);
  }

  const doing = {
    start: () => go(0),
    back: () => go(at - 1),
    step: () => go(at + 1),
    play: () => play(!timer),
    event: () => {
      const next = ticks.findIndex((ns, tick) => tick > at && marked.has(ns));
      go(next < 0 ? ticks.length - 1 : next);
    },
  };
  const keys = {
    " ": doing.play, ArrowLeft: doing.back, ArrowRight: doing.step, Home: doing.start, End: () => go(ticks.length - 1),
    PageUp: () => go(at - 10), PageDown: () => go(at + 10), n: doing.event, N: doing.event,
    "+": () => speed(1), "=": () => speed(1), "-": () => speed(-1), Escape: () => choose(chosen),
  };

  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.do) doing[button.dataset.do]();
    else if (button.dataset.request) choose(Number(button.dataset.request));
    else if (button.dataset.to) go(Number(button.dataset.to));
    else if (button.classList.contains("map-close")) choose(chosen);
  });

  const alone = document.body.classList.contains("map-page");
  (alone ? document : root).addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    const tag = event.target.tagName;
    if (tag === "SELECT" || tag === "INPUT" || (tag === "SUMMARY" && event.key === " ") || (tag === "BUTTON" && event.key === " ")) return;
    if (event.key === "Escape" && chosen < 0) return;
    if (!alone && ["Home", "End", "PageUp", "PageDown"].includes(event.key) && !one(".map-strip").contains(event.target)) return;
    event.preventDefault();
    keys[event.key]();
  });

  const slider = one(".map-strip");
  const drag = (event) => {
    const ns = strip.nsAt(event.clientX);
    const next = ticks.findIndex((tick) => tick > ns);
    go(next < 0 ? ticks.length - 1 : Math.max(0, next - 1));
  };
  slider.addEventListener("pointerdown", (event) => {
    slider.setPointerCapture(event.pointerId);
    drag(event);
  });
  slider.addEventListener("pointermove", (event) => {
    if (slider.hasPointerCapture(event.pointerId)) drag(event);
  });

  for (const { box, state, drawing, lane } of lanes) {
    const canvas = drawing.canvas;
    const under = one("[data-under]", box);
    canvas.addEventListener("click", (event) => {
      const found = holders(event);
      if (!found.length) return chosen >= 0 && choose(chosen);
      const place = found.indexOf(chosen); // a shared one: the next of those that hold it
      if (place >= 0 && place + 1 < found.length) chosen = -1;
      return choose(found[place < 0 ? 0 : Math.min(place + 1, found.length - 1)]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const slot = drawing.slotAt(event.clientX, event.clientY);
      if (slot < 0) return;
      const kind = state.kinds[slot];
      const term = kind === KIND.free && state.frame?.blocked ? "external" : KIND_TERM[kind];
      const found = holders(event);
      const where = lane.block > 1 ? `block ${Math.floor((slot + lane.first) / lane.block)}, slot ${count(slot + lane.first)}` : `slot ${count(slot)}`;
      under.textContent = `${where}: ${term}${found.length ? `, request${found.length > 1 ? "s" : ""} ${found.join(", ")}` : ""}`;
    });
    canvas.addEventListener("pointerleave", () => { under.textContent = ""; });
    function holders(event) {
      const slot = drawing.slotAt(event.clientX, event.clientY);
      return slot < 0 ? [] : [...new Set(state.holding(slot).map((index) => lane.holders[index].request))];
    }
  }

  // The list of events, made when it is opened.
  one("[data-events]").textContent = count(events.length);
  const list = one(".map-events");
  list.addEventListener("toggle", () => {
    const out = one("ol", list);
    if (!list.open || out.children.length) return;
    out.append(...events.slice(0, 5000).map((event) => {
      const item = made("li");
      const button = made("button", "map-jump", `${seconds(event.at)} s`);
      button.type = "button";
      button.dataset.to = String(ticks.indexOf(event.at));
      item.append(button, made("span", "map-who", lanes.length > 1 ? scene.lanes[event.lane].name : ""), made("span", "", event.said.text));
      return item;
    }));
  });

  function redraw() {
    PoolInk.read();
    for (const { drawing } of lanes) drawing.resize();
    strip.resize();
    for (const { drawing } of lanes) drawing.draw(chosen);
    strip.draw(ticks[at]);
  }

  new ResizeObserver(redraw).observe(one(".map-lanes"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  redraw();
  show(0);
})();
