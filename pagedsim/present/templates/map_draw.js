"use strict";
// Draws a pool. Colours come from the page's style, so they
// follow the screen into the dark and back on paper.
const PoolInk = {
  read() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.page = of("--bg");
    this.ink = of("--ink");
    this.faint = of("--faint");
    this.rule = of("--rule");
    this.terms = Object.fromEntries(["live", "reserved", "internal", "external", "cached", "idle"].map((term) => [term, of(`--${term}`)]));
    this.hatches = new Map();
  },

  // A hatch of lines or dots over a tint: one for each kind, so that colour is not all that tells them.
  hatch(context, kind, scale) {
    const key = `${kind} ${scale}`;
    if (this.hatches.has(key)) return this.hatches.get(key);
    const size = 6 * scale;
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const on = tile.getContext("2d");
    const color = this.terms[kind];
    on.fillStyle = this.page;
    on.fillRect(0, 0, size, size);
    on.globalAlpha = 0.28;
    on.fillStyle = color;
    on.fillRect(0, 0, size, size);
    on.globalAlpha = 1;
    on.strokeStyle = color;
    on.lineWidth = 1.5 * scale;
    const line = (x0, y0, x1, y1) => { on.beginPath(); on.moveTo(x0, y0); on.lineTo(x1, y1); on.stroke(); };
    if (kind === "reserved" || kind === "internal") {
      for (const shift of [-size, 0, size]) line(shift, size, shift + size, 0);
    }
    if (kind === "internal") for (const shift of [-size, 0, size]) line(shift, 0, shift + size, size);
    if (kind === "cached") line(0, size / 2, size, size / 2);
    if (kind === "external") {
      on.fillStyle = color;
      on.beginPath();
      on.arc(size / 2, size / 2, 1.5 * scale, 0, 7);
      on.fill();
    }
    const made = context.createPattern(tile, "repeat");
    this.hatches.set(key, made);
    return made;
  },
};

const KIND_TERM = ["idle", "cached", "external", "internal", "reserved", "live", "live"];

class PoolDrawing {
  constructor(canvas, state, data) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.state = state;
    this.data = data;
    this.row = data.columns * data.square; // slots of a row
    this.rows = Math.ceil(state.lane.capacity / this.row);
  }

  color(index) {
    return this.data.colors[this.data.color_of[this.state.lane.holders[index].request]];
  }

  resize() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    this.scale = Math.max(1, Math.min(3, devicePixelRatio || 1));
    const gapless = Math.floor((width * this.scale) / this.data.columns);
    this.cell = Math.max(1, gapless); // device pixels
    this.width = this.cell * this.data.columns;
    // Rows of a small pool are taller than its squares are wide, for the names that stand in them.
    this.high = this.rows > 16 ? this.cell : Math.round(Math.max(this.cell, Math.min(1.7 * this.cell, 28 * this.scale)));
    this.canvas.width = this.width;
    this.canvas.height = this.high * this.rows;
    this.canvas.style.width = `${this.width / this.scale}px`;
    this.canvas.style.height = `${(this.high * this.rows) / this.scale}px`;
  }

  slotAt(x, y) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor(((y - box.top) / box.height) * this.rows);
    const slot = row * this.row + Math.floor(((x - box.left) / box.width) * this.row);
    return slot >= 0 && slot < this.state.lane.capacity && x >= box.left && x < box.right ? slot : -1;
  }

  // Runs of slots alike, row by row: [row, from, to, kind, owner].
  *runs() {
    const { kinds, owners } = this.state;
    for (let row = 0; row < this.rows; row++) {
      const end = Math.min((row + 1) * this.row, kinds.length);
      let from = row * this.row;
      while (from < end) {
        let to = from + 1;
        while (to < end && kinds[to] === kinds[from] && owners[to] === owners[from]) to++;
        yield [row, from, to, kinds[from], owners[from]];
        from = to;
      }
    }
  }

  draw(chosen) {
    if (!this.width) return;
    const { context, cell, high, scale } = this;
    const blocked = Boolean(this.state.frame && this.state.frame.blocked);
    const mine = chosen < 0 ? null : this.slotsOf(chosen);
    const labels = [];
    context.fillStyle = PoolInk.page;
    context.fillRect(0, 0, this.width, high * this.rows);
    for (const [row, from, to, kind, owner] of this.runs()) {
      const x = ((from - row * this.row) / this.row) * this.width;
      const w = ((to - from) / this.row) * this.width;
      const y = row * high;
      let term = KIND_TERM[kind];
      if (kind === KIND.free && blocked) term = "external";
      const faded = mine && (owner < 0 || !mine(from));
      context.globalAlpha = faded ? 0.35 : 1;
      if (term === "live") context.fillStyle = this.color(owner);
      else if (term === "idle") context.fillStyle = PoolInk.terms.idle;
      else context.fillStyle = PoolInk.hatch(context, term, scale);
      context.fillRect(x, y, w, high);
      if (kind === KIND.shared) this.dots(x, y, w);
      if (owner >= 0 && term !== "live" && cell >= 6 * scale) {
        context.fillStyle = this.color(owner);
        context.fillRect(x, y + high - 4 * scale, w, 3 * scale);
      }
      context.globalAlpha = 1;
      labels.push([row, from, x, y, w, term, owner, to - from]);
    }
    this.lines();
    if (high >= 11 * scale) this.label(labels, mine);
    if (mine) this.outline(mine);
  }

  slotsOf(chosen) {
    const inside = new Uint8Array(this.state.lane.capacity);
    for (const [index, one] of this.state.holders) {
      if (this.state.lane.holders[index].request !== chosen) continue;
      for (let i = 0; i < one.extents.length; i += 2) {
        const start = one.extents[i] - this.state.lane.first;
        inside.fill(1, start, start + one.extents[i + 1]);
      }
    }
    return (slot) => inside[slot] === 1;
  }

  dots(x, y, w) {
    const { context, cell, high, scale } = this;
    const step = Math.max(cell, 4 * scale);
    context.fillStyle = "#FFFFFF";
    for (let at = x + step / 2; at < x + w; at += step) {
      context.beginPath();
      context.arc(at, y + high * (high > cell ? 0.75 : 0.5), Math.max(Math.min(step / 6, 3 * scale), scale), 0, 7);
      context.fill();
    }
  }

  // Gaps between squares, wider ones between blocks.
  lines() {
    const { context, cell, high, scale, data } = this;
    if (cell < 5 * scale) return;
    const block = data.square === 1 ? this.state.lane.block : 1;
    context.fillStyle = PoolInk.page;
    for (let row = 1; row < this.rows; row++) context.fillRect(0, row * high - scale, this.width, scale * (high >= 11 * scale ? 2 : 1));
    for (let column = 1; column < data.columns; column++) {
      const wide = block > 1 && column % block === 0;
      context.globalAlpha = wide ? 1 : 0.55;
      context.fillRect(column * cell - (wide ? scale * 1.5 : scale / 2), 0, wide ? scale * 3 : scale, high * this.rows);
    }
    context.globalAlpha = 1;
    const left = this.state.lane.capacity % this.row; // behind the pool's end
    if (left) context.fillRect((left / this.row) * this.width, (this.rows - 1) * high, this.width, high);
  }

  // Who, and what for: written where it sits, once for each stretch that has room for it.
  label(runs, mine) {
    const { context, high, scale } = this;
    const size = Math.min(13, Math.floor((high / scale) * 0.6));
    context.font = `600 ${size * scale}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    let before = "";
    for (const [row, from, x, y, w, term, owner] of runs) {
      const what = term === "live" ? this.names(from, owner, w) : term === "idle" ? "" : term;
      const same = `${term} ${owner}`;
      const goes = same === before && from % this.row === 0 && row > 0;
      before = same;
      if (!what || (goes && term !== "live")) continue;
      const width = context.measureText(what).width;
      if (width + 6 * scale > w) { if (term !== "live") before = ""; continue; }
      context.globalAlpha = mine && !mine(from) ? 0.35 : 1;
      if (term === "live") {
        context.fillStyle = dark(this.color(owner)) ? "#FFFFFF" : "#16191D";
        context.fillText(what, x + 4 * scale, y + high * (high > this.cell ? 0.42 : 0.47));
      } else {
        context.fillStyle = PoolInk.page;
        context.fillRect(x + 2 * scale, y + high / 2 - (size / 2 + 1) * scale, width + 5 * scale, (size + 1) * scale);
        context.fillStyle = PoolInk.ink;
        context.fillText(what, x + 4 * scale, y + high / 2 - scale / 2);
      }
      context.globalAlpha = 1;
    }
  }

  // The request of a live slot, or of all that share it, as many as there is room for.
  names(slot, owner, width) {
    const { lane, kinds } = this.state;
    const own = String(lane.holders[owner].request);
    if (kinds[slot] !== KIND.shared || width < 24 * this.scale) return own;
    const all = [...new Set(this.state.holding(slot).map((index) => lane.holders[index].request))];
    const named = all.join(" ");
    return this.context.measureText(named).width + 6 * this.scale <= width ? named : `${own} +${all.length - 1}`;
  }

  // A line around what the chosen sequence holds.
  outline(mine) {
    const { context, high, scale, row } = this;
    context.fillStyle = PoolInk.ink;
    const thick = Math.max(1, Math.round(1.5 * scale));
    const capacity = this.state.lane.capacity;
    const px = (slot) => ((slot % row) / row) * this.width;
    for (let slot = 0; slot < capacity; slot++) {
      if (!mine(slot)) continue;
      const [x, y, w] = [px(slot), Math.floor(slot / row) * high, this.width / row];
      if (slot % row === 0 || !mine(slot - 1)) context.fillRect(x, y, thick, high);
      if (slot % row === row - 1 || slot + 1 === capacity || !mine(slot + 1)) context.fillRect(x + w - thick, y, thick, high);
      if (slot < row || !mine(slot - row)) context.fillRect(x, y, w, thick);
      if (slot + row >= capacity || !mine(slot + row)) context.fillRect(x, y + high - thick, w, thick);
    }
  }
}

function dark(color) {
  const part = (at) => parseInt(color.slice(at, at + 2), 16);
  return 0.299 * part(1) + 0.587 * part(3) + 0.114 * part(5) < 140;
}
