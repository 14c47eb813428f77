"use strict";
// Sections 8 and 10: what limits a pass, and a whole server, of which all numbers were simulated.
(() => {
  const { numbers, words, text, value, say, drawn, picture, letters, axes, line, area, thing } = parts;
  const { significant, share, whole } = formulas;

  thing("intensity", () => {
    const card = numbers.cards.find((each) => each.name === value("intensity-card"));
    const model = numbers.models.find((each) => each.name === value("intensity-model"));
    const kv = formulas.token(model.layers, model.kv_heads, model.head_dim, numbers.dtypes.fp16);
    const batch = value("intensity-batch");
    const steps = {
      prefill: formulas.prefill(model, kv, value("intensity-prompt")),
      decode: formulas.decode(model, kv, batch, value("intensity-context")),
    };
    const found = { prefill: steps.prefill.intensity, decode: steps.decode.intensity };
    for (const [name, step] of Object.entries(steps)) {
      const ns = formulas.least(card, step);
      say(`intensity.${name}.ns`, ns, text("milliseconds", { ms: significant(ns / 1e6) }));
    }
    const rate = batch * 1e9 / formulas.least(card, steps.decode);
    say("intensity.rate", rate, significant(rate));
    say("intensity.ridge", card.ridge, significant(card.ridge));
    for (const [name, intensity] of Object.entries(found)) {
      const use = Math.min(1, intensity / card.ridge);
      const limit = intensity >= card.ridge ? text("limit_compute", { name: words[name], share: share(use) })
        : text("limit_memory", { name: words[name], share: share(use) });
      say(`intensity.${name}`, intensity, significant(intensity));
      say(`intensity.${name}.use`, use, limit);
    }
    picture("intensity-picture", 300, text("roof_label"), (svg, width, height) => {
      const [low, high] = [0.5, 50000];
      const reached = (intensity) => Math.min(card.flops, intensity * card.bandwidth);
      const at = axes(svg, width, height, { low, high, log: true, name: words.axis_x },
        { low: reached(low) / 2, high: card.flops * 4, log: true, name: words.axis_y });
      const roof = [low, card.ridge, high].map((x) => [at.x(x), at.y(reached(x))]);
      area(svg, [[at.x(low), at.inner.bottom], ...roof, [at.x(high), at.inner.bottom]], "room faded");
      line(svg, roof, "ink");
      line(svg, [[at.x(card.ridge), at.inner.bottom], [at.x(card.ridge), at.y(card.flops)]], "here");
      letters(svg, at.x(card.ridge) + 5, at.inner.bottom - 6, words.ridge, { class: "halo" });
      const close = Math.abs(at.x(found.prefill) - at.x(found.decode)) < 72;
      for (const [name, kind] of [["prefill", "without"], ["decode", "with"]]) {
        const [x, y] = [at.x(found[name]), at.y(reached(found[name]))];
        line(svg, [[x, at.inner.bottom], [x, y]], `${kind} thin`);
        svg.append(drawn("circle", { cx: x, cy: y, r: 6, class: `dot ${kind}` }));
        const below = close && name === "decode";
        letters(svg, x, y + (below ? 22 : -11), words[name], { "text-anchor": "middle", class: "name halo" });
      }
    });
  });

  function duration(s) {
    return s < 1 ? text("milliseconds", { ms: significant(1000 * s) }) : text("seconds", { s: significant(s) });
  }

  const ORDER = ["live", "reserved", "internal", "external", "idle"];

  // The account over time, stacked; after the run the pool is empty.
  function account(id, run, end, label) {
    const { at_ns: times, terms } = run.series;
    picture(id, 150, label, (svg, width, height) => {
      const pool = numbers.replays.pool;
      const at = axes(svg, width, height, { low: 0, high: end, name: words.axis_time }, { low: 0, high: pool, name: words.axis_pool });
      const low = times.map(() => 0);
      area(svg, [[at.x(0), at.y(0)], [at.x(0), at.y(pool)], [at.x(end), at.y(pool)], [at.x(end), at.y(0)]], "idle");
      for (const term of ORDER) {
        const high = low.map((value_, i) => value_ + terms[term][i]);
        const edge = (values) => times.map((time, i) => [at.x(time / 1e9), at.y(values[i])]);
        area(svg, [...edge(low), ...edge(high).reverse()], term);
        high.forEach((value_, i) => { low[i] = value_; });
      }
      line(svg, [[at.x(run.makespan_s), at.inner.top], [at.x(run.makespan_s), at.inner.bottom]], "here");
    });
  }

  thing("replay", () => {
    const { runs, outputs } = numbers.replays;
    const [maxLen, spread, block] = [Number(value("replay-max-len")), Number(value("replay-spread")), Number(value("replay-block"))];
    const pick = (size) => runs.find((run) => run.max_len === maxLen && run.spread === spread && run.block === size);
    const found = { contiguous: pick(0), paged: pick(block) };
    const end = Math.max(...Object.values(found).map((run) => run.makespan_s));
    for (const [name, run] of Object.entries(found)) {
      const empty = share(run.waste_of_held);
      say(`replay.${name}.empty`, run.waste_of_held, `${empty} %`);
      say(`replay.${name}.batch`, run.batch_mean, significant(run.batch_mean));
      say(`replay.${name}.peak`, run.batch_peak, whole(run.batch_peak));
      say(`replay.${name}.ttft`, run.ttft_s, duration(run.ttft_s));
      say(`replay.${name}.done`, run.makespan_s, duration(run.makespan_s));
      say(`replay.${name}.preemptions`, run.preemptions, whole(run.preemptions));
      account(`replay-${name}`, run, end, text("area_label", { name: words[name], held: empty }));
    }
    const lengths = Object.entries(outputs).find(([key]) => Number(key) === spread)[1];
    const most = Math.max(...Object.values(outputs).flat());
    picture("replay-outputs", 64, words.outputs, (svg, width) => {
      const step = (width - 44) / lengths.length;
      lengths.forEach((length, i) => {
        const high = 56 * length / most;
        svg.append(drawn("rect", { x: 40 + i * step, y: 60 - high, width: Math.max(0.8, step - 0.8), height: high, class: "written-token" }));
      });
      letters(svg, 34, 12, whole(most), { "text-anchor": "end" });
      letters(svg, 34, 60, "0", { "text-anchor": "end" });
    });
  });
})();
