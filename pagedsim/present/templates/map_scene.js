"use strict";
// Frames of a lane read back into pictures: who holds which slot, and what each slot is for. The
// words are those of the scene: holders, extents (start, length, …), kinds.
const KIND = { free: 0, cached: 1, lost: 2, internal: 3, reserved: 4, live: 5, shared: 6 };

class LaneState {
  constructor(lane) {
    this.lane = lane;
    this.at = -1; // the frame that is shown, -1: none yet
    this.kinds = new Uint8Array(lane.capacity);
    this.owners = new Int32Array(lane.capacity); // holder, -1: nobody
    this.cached = new Uint8Array(lane.capacity);
    this.holders = new Map();
    // Going back starts from a copy: one in every so many frames, few where a pool is large.
    this.every = Math.max(64, Math.ceil((lane.frames.length * lane.capacity) / 2 ** 26));
    this.copies = new Map();
    this.copy(-1);
  }

  get frame() {
    return this.at < 0 ? null : this.lane.frames[this.at];
  }

  // The last frame that starts by `ns`, -1: none.
  indexAt(ns) {
    const frames = this.lane.frames;
    let [low, high] = [0, frames.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (frames[middle].start_ns <= ns) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // Shows frame `index`; whether that is another than before.
  seek(index) {
    if (index === this.at) return false;
    if (index < this.at || index > this.at + this.every) this.restore(index);
    while (this.at < index) {
      this.move(this.lane.frames[++this.at]);
      if (this.at % this.every === this.every - 1) this.copy(this.at);
    }
    this.paint();
    return true;
  }

  copy(at) {
    if (this.copies.has(at)) return;
    const holders = [...this.holders].map(([index, one]) => [index, { ...one, extents: [...one.extents] }]);
    this.copies.set(at, { holders, cached: this.cached.slice() });
  }

  restore(index) {
    let best = -1;
    for (const at of this.copies.keys()) if (at <= index && at > best) best = at;
    if (this.at <= index && this.at >= best) return;
    const { holders, cached } = this.copies.get(best);
    this.holders = new Map(holders.map(([each, one]) => [each, { ...one, extents: [...one.extents] }]));
    this.cached.set(cached);
    this.at = best;
  }

  move(frame) {
    for (const index of frame.done ?? []) this.holders.get(index).done = true;
    for (const one of this.holders.values()) if (!one.done) one.stored += 1;
    for (const index of frame.gone ?? []) this.holders.delete(index);
    for (const change of frame.changes ?? []) {
      let one = this.holders.get(change.holder);
      if (!one) this.holders.set(change.holder, (one = { extents: [], stored: 0, done: false, hit: change.hit ?? 0 }));
      one.extents.splice(2 * (change.keep ?? 0), Infinity, ...(change.extents ?? []));
      one.room = change.room;
      one.lost = change.lost ?? 0;
    }
    const stored = frame.stored ?? [];
    for (let i = 0; i < stored.length; i += 2) this.holders.get(stored[i]).stored = stored[i + 1];
    this.mark(frame.dropped, 0);
    this.mark(frame.kept, 1);
  }

  mark(extents = [], value) {
    for (let i = 0; i < extents.length; i += 2) {
      const start = extents[i] - this.lane.first;
      this.cached.fill(value, start, start + extents[i + 1]);
    }
  }

  // What comes later wins: a slot that is live for anyone is live. A slot's owner is the first of those
  // that hold it, in the order in which they came.
  paint() {
    const { kinds, owners, lane } = this;
    const frame = this.frame;
    kinds.fill(KIND.free);
    owners.fill(-1);
    if (!frame) return;
    for (let i = 0; i < kinds.length; i++) if (this.cached[i]) kinds[i] = KIND.cached;
    const parts = [...this.holders].map(([index, one]) => [index, one, this.parts(index, one)]);
    for (const kind of [KIND.lost, KIND.internal, KIND.reserved]) {
      for (const [index, one, bounds] of parts) {
        for (const [from, to, what] of bounds) {
          if (what === kind) this.fill(one.extents, from, to, kind, index);
        }
      }
    }
    for (const [index, one, bounds] of parts) this.live(one.extents, bounds[0][1], index);
  }

  // The parts of a holder's positions: [from, to, kind], the live ones first.
  parts(index, one) {
    const frame = this.frame;
    const stored = one.done ? 0 : one.stored;
    const final = this.lane.holders[index].final;
    const filled = one.done ? 0 : Math.min(one.room, Math.max(final, stored));
    const ended = (frame.shared ?? 0) > 0 && [...this.holders.values()].some((each) => each.done);
    const behind = one.lost ? KIND.lost : one.done || ended ? KIND.internal : KIND.reserved;
    return [[0, stored, KIND.live], [stored, filled, KIND.reserved], [filled, one.room, KIND.internal], [one.room, Infinity, behind]];
  }

  fill(extents, from, to, kind, index) {
    let position = 0;
    for (let i = 0; i < extents.length && position < to; i += 2) {
      const [start, length] = [extents[i] - this.lane.first, extents[i + 1]];
      const [low, high] = [Math.max(from - position, 0), Math.min(to - position, length)];
      if (low < high) {
        this.kinds.fill(kind, start + low, start + high);
        this.owners.fill(index, start + low, start + high);
      }
      position += length;
    }
  }

  live(extents, stored, index) {
    const { kinds, owners } = this;
    let position = 0;
    for (let i = 0; i < extents.length && position < stored; i += 2) {
      const start = extents[i] - this.lane.first;
      const end = start + Math.min(extents[i + 1], stored - position);
      for (let slot = start; slot < end; slot++) {
        if (kinds[slot] >= KIND.live) kinds[slot] = KIND.shared;
        else {
          kinds[slot] = KIND.live;
          owners[slot] = index;
        }
      }
      position += extents[i + 1];
    }
  }

  // The account, counted from the slots, in the order of `terms`.
  count() {
    const counts = new Array(7).fill(0);
    for (const kind of this.kinds) counts[kind] += 1;
    const free = counts[KIND.free];
    const blocked = Boolean(this.frame && this.frame.blocked);
    return [
      counts[KIND.live] + counts[KIND.shared], counts[KIND.reserved], counts[KIND.internal],
      counts[KIND.lost] + (blocked ? free : 0), counts[KIND.cached], blocked ? 0 : free,
    ];
  }

  // Holders of a slot, by index.
  holding(slot) {
    const found = [];
    for (const [index, one] of this.holders) {
      for (let i = 0; i < one.extents.length; i += 2) {
        const start = one.extents[i] - this.lane.first;
        if (slot >= start && slot < start + one.extents[i + 1]) found.push(index);
      }
    }
    return found;
  }
}
