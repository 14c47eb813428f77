"use strict";
// What there is to say of one sequence, as elements of the page. All texts go in as text.
const count = (value) => value.toLocaleString("en-US");

function made(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// What a lane has to say of a request at `now`.
function sequenceIn({ lane, state }, chosen, now) {
  const out = made("div");
  out.append(made("h3", "", lane.name));
  const mine = [...state.holders].filter(([index]) => lane.holders[index].request === chosen);
  const frame = state.frame;
  if (!mine.length) {
    const next = lane.frames.slice(state.at + 1).some((each) => (each.changes ?? []).some((change) => lane.holders[change.holder].request === chosen));
    const queued = frame && (frame.queue ?? []).includes(chosen);
    const known = lane.holders.find((holder) => holder.request === chosen);
    const words = queued ? "It waits." : next && known && known.arrival_ns > now ? "It has not arrived yet." : next ? "It waits, or comes back later." : known ? "It is done." : "It holds nothing here in this stretch of time.";
    out.append(made("p", "", words));
  }
  for (const [index, held] of mine) out.append(...sequenceTable(lane, state, index, held, chosen));
  return out;
}

// A sequence of it: how far it is, what it holds, where, and with whom it shares.
function sequenceTable(lane, state, index, held, chosen) {
  const holder = lane.holders[index];
  const parts = state.parts(index, held);
  const slots = held.extents.reduce((sum, value, i) => sum + (i % 2 ? value : 0), 0);
  const sizes = parts.map(([from, to, kind]) => [Math.max(0, Math.min(to, slots) - from), kind]);
  const name = { [KIND.live]: "live", [KIND.reserved]: "reserved", [KIND.internal]: "internal", [KIND.lost]: "lost in rounding" };
  const sums = new Map();
  for (const [size, kind] of sizes) sums.set(kind, (sums.get(kind) ?? 0) + size);
  const words = [...sums].filter(([, size]) => size).map(([kind, size]) => `${count(size)} ${name[kind]}`).join(", ");
  const output = Math.max(0, Math.min(held.stored, holder.final) - holder.prompt + 1);
  const sample = holder.sample ? `Sample ${holder.sample}: ` : "";
  const lines = [made("p", "", `${sample}${count(held.stored)} of ${count(holder.final)} tokens stored, ${count(output)} of ${count(holder.output)} written. Holds ${count(slots)} slots: ${words}.`)];
  if (held.hit) lines.push(made("p", "", `${count(held.hit)} of its tokens were found in the cache as it came in.`));
  const block = lane.block;
  if (block === 1) {
    const pieces = [];
    for (let i = 0; i < held.extents.length && i < 24; i += 2) pieces.push(`${count(held.extents[i])} to ${count(held.extents[i] + held.extents[i + 1] - 1)}`);
    lines.push(made("p", "map-where", `Slots ${pieces.join(", ")}${held.extents.length > 24 ? ", …" : ""}`));
    return lines;
  }
  const users = new Map();
  for (const [other, each] of state.holders) {
    if (other !== index) for (const id of blocks(each.extents, block)) users.set(id, [...(users.get(id) ?? []), lane.holders[other].request]);
  }
  const list = made("ol", "map-table");
  const ids = [...blocks(held.extents, block)];
  ids.slice(0, 400).forEach((id) => {
    const shared = users.get(id);
    const item = made("li", shared ? "shared" : "", String(id));
    if (shared) item.title = `shared with ${[...new Set(shared)].join(", ")}`;
    list.append(item);
  });
  lines.push(made("p", "map-where", `Block table, ${count(ids.length)} blocks of ${block}${ids.length > 400 ? ", the first 400" : ""}:`), list);
  const others = [...new Set(ids.flatMap((id) => users.get(id) ?? []))];
  const shared = ids.filter((id) => users.has(id)).length;
  if (shared) {
    const names = others.filter((each) => each !== chosen);
    const them = [others.includes(chosen) ? "its own samples" : "", names.length ? `request${names.length > 1 ? "s" : ""} ${names.slice(0, 12).join(", ")}${names.length > 12 ? ", …" : ""}` : ""];
    lines.push(made("p", "", `${count(shared)} of them ${shared === 1 ? "is" : "are"} shared with ${them.filter(Boolean).join(" and ")}.`));
  }
  return lines;
}

function* blocks(extents, block) {
  for (let i = 0; i < extents.length; i += 2) {
    for (let slot = extents[i]; slot < extents[i] + extents[i + 1]; slot += block) yield slot / block;
  }
}
