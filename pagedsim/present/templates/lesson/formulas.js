"use strict";
// What the page works out itself: whole numbers, exact below 2^53, and their texts. No element of
// the page is known here, so that each can be held against Python over all that its controls allow.
const formulas = (() => {
  function exact(value) {
    if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not exact`);
    return value;
  }

  // Counts for generating n tokens, as pagedsim.device.work.
  function work(n) {
    const once = exact(n * (n + 1) / 2);
    return {
      passes: n, refeed_dots: exact(n * (n + 1) * (2 * n + 1)) / 6, cached_dots: once,
      recompute_projections: once, cached_projections: n,
    };
  }

  // Bytes of one token; bits so that half bytes stay whole.
  function token(layers, heads, size, bits) {
    return exact(2 * layers * heads * size * bits) / 8;
  }

  function blocks(tokens, block) {
    return Math.ceil(tokens / block);
  }

  // (Query, key) pairs of a step that adds `tokens` to `computed` stored ones.
  function pairs(computed, tokens) {
    return exact(tokens * computed + tokens * (tokens + 1) / 2);
  }

  // FLOPs and bytes of a step, as pagedsim.device.roofline has them for dense models.
  function step(model, kv, tokens, queried, context) {
    const flops = exact(model.flops_per_token * tokens + model.flops_per_pair * queried);
    const bytes = exact(model.weights_bytes + kv * (context + tokens));
    return { flops, bytes, intensity: flops / bytes };
  }

  function prefill(model, kv, tokens) {
    return step(model, kv, tokens, pairs(0, tokens), tokens);
  }

  function decode(model, kv, batch, context) {
    return step(model, kv, batch, batch * context, batch * context);
  }

  // Nanoseconds of a step at both full speeds: a roofline with mfu and mbu of 1 and no overhead.
  function least(card, { flops, bytes }) {
    const ns = Math.max(flops / (card.flops / 1e9), bytes / (card.bandwidth / 1e9));
    return Math.max(1, Number(decimals(ns, 0)));
  }

  // Rounded to some decimals, halves to even as Python does; toFixed alone rounds them up.
  function decimals(value, digits) {
    const rounded = value.toFixed(digits);
    const long = value.toFixed(digits + 30);
    const cut = long.slice(0, long.length - 30);
    const half = /^50*$/.test(long.slice(-30)) && /[02468]\.?$/.test(cut);
    return half ? cut.replace(/\.$/, "") : rounded;
  }

  function grouped(text) {
    const [whole, rest] = text.split(".");
    const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return rest === undefined ? spaced : `${spaced}.${rest}`;
  }

  function whole(value) {
    return grouped(String(exact(value)));
  }

  // Three digits that matter: numbers.significant.
  function significant(value) {
    if (value === 0) return "0";
    for (const [bound, digits] of [[99.95, 0], [9.995, 1], [0.9995, 2], [0.09995, 3]]) {
      if (Math.abs(value) >= bound) return grouped(decimals(value, digits));
    }
    return Math.abs(value) >= 0.00005 ? decimals(value, 4) : "<0.0001";
  }

  function share(value) {
    if (value > 0 && value < 0.0005) return "<0.1";
    if (value >= 0.9995 && value < 1) return ">99.9";
    return decimals(100 * value, 1);
  }

  // Four digits that matter, in the largest unit that fits: numbers.bytes_.
  function bytes(value) {
    for (const [power, name] of [[40, "TiB"], [30, "GiB"], [20, "MiB"], [10, "KiB"]]) {
      const unit = 2 ** power;
      if (value >= unit) return `${four(value / unit)} ${name}`;
    }
    return `${four(value)} B`;
  }

  function four(value) {
    const digits = Math.max(0, 4 - String(Math.floor(value)).length);
    const text = decimals(value, digits);
    return grouped(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  }

  return Object.freeze({
    work, token, blocks, pairs, prefill, decode, least, whole, significant, share, bytes, decimals, grouped,
  });
})();
