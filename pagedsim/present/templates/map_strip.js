"use strict";
// A text that fits, its end cut off where it does not.
function short(context, text, width) {
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end)).width > width - 8) end--;
  return end < text.length ? `${text.slice(0, end - 1)}…` : text;
}

const KNOB = 10;

// The account of each lane over time, with marks where something went wrong.
class StripDrawing {
  constructor(canvas, data, end) {
    this.canvas = canvas;
    this.data = data;
    this.start = data.scene.from_ns;
    this.end = Math.max(end, this.start + 1);
  }

  x(ns) {
    return ((ns - this.start) / (this.end - this.start)) * this.canvas.width;
  }

  nsAt(x) {
    const box = this.canvas.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (x - box.left) / box.width));
    return this.start + share * (this.end - this.start);
  }

  // Room for a lane and its name; over the first lane, for the knob.
  get lane() {
    return this.high + 25;
  }

  resize() {
    const scale = Math.max(1, Math.min(3, devicePixelRatio || 1));
    this.scale = scale;
    const lanes = this.data.scene.lanes.length;
    this.high = Math.max(18, Math.min(34, 110 / lanes));
    this.canvas.width = Math.round(this.canvas.parentElement.clientWidth * scale);
    this.canvas.height = Math.round((KNOB + lanes * this.lane) * scale);
    this.canvas.style.height = `${KNOB + lanes * this.lane}px`;
    this.still = null;
  }

  draw(now) {
    const context = this.canvas.getContext("2d");
    if (!this.canvas.width) return;
    if (!this.still) this.still = this.rest();
    context.drawImage(this.still, 0, 0);
    const x = this.x(now);
    context.fillStyle = PoolInk.ink;
    context.fillRect(Math.round(x - this.scale), 0, 2 * this.scale, this.canvas.height);
    context.beginPath();
    context.arc(Math.min(this.canvas.width - 5 * this.scale, Math.max(5 * this.scale, x)), 5 * this.scale, 5 * this.scale, 0, 7);
    context.fill();
  }

  rest() {
    const made = document.createElement("canvas");
    made.width = this.canvas.width;
    made.height = this.canvas.height;
    const context = made.getContext("2d");
    context.fillStyle = PoolInk.page;
    context.fillRect(0, 0, made.width, made.height);
    const { scale, high, data } = this;
    data.scene.lanes.forEach((lane, index) => {
      const top = (KNOB + index * this.lane + 23) * scale;
      context.font = `${10.5 * scale}px system-ui, sans-serif`;
      context.fillStyle = PoolInk.faint;
      context.textAlign = "left";
      context.fillText(short(context, lane.name, made.width), 0, top - 12 * scale);
      context.fillStyle = PoolInk.terms.idle;
      context.fillRect(0, top, made.width, high * scale);
      lane.frames.forEach((frame, at) => {
        const x = this.x(frame.start_ns);
        const next = at + 1 < lane.frames.length ? lane.frames[at + 1].start_ns : this.end;
        const w = Math.max(this.x(next) - x, 0.5) + 0.5;
        let y = top + high * scale;
        frame.terms.forEach((slots, place) => {
          const h = (slots / lane.capacity) * high * scale;
          context.fillStyle = PoolInk.terms[data.terms[place]];
          y -= h;
          if (data.terms[place] !== "idle") context.fillRect(x, y, w, h);
        });
      });
      context.fillStyle = PoolInk.ink;
      for (const frame of lane.frames) {
        if (!(frame.said ?? []).some((said) => !said.again && (said.kind === "refused" || said.kind === "preempted"))) continue;
        const x = this.x(frame.start_ns);
        context.beginPath();
        context.moveTo(x - 3.5 * scale, top - 7 * scale);
        context.lineTo(x + 3.5 * scale, top - 7 * scale);
        context.lineTo(x, top - scale);
        context.fill();
      }
    });
    return made;
  }
}
