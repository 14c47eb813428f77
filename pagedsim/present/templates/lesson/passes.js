"use strict";
// Sections 1 to 4: passes, what never changes, and the work.
(() => {
  const { numbers, words, text, value, say, find, element, drawn, picture, letters, axes, line, thing } = parts;

  thing("passes", () => {
    const [question, answer] = [value("passes-question"), value("passes-answer")];
    const read = question + answer - 1;
    find("passes-sentence").replaceChildren(
      ...words.question.slice(-question).map((word) => element("span", { class: "token read-token" }, [word])),
      ...words.answer.slice(0, answer).map((word, at) =>
        element("span", { class: "token written-token" }, [word, element("small", {}, [String(at + 1)])])),
    );
    const [gap, high] = [3, 15];
    picture("passes-picture", answer * (high + gap) + 4, text("ladder_label", { passes: answer, read }), (svg, width) => {
      const side = Math.min(40, (width - 30) / (read + 1));
      for (let pass = 0; pass < answer; pass += 1) {
        const y = pass * (high + gap) + 2;
        letters(svg, 20, y + 12, String(pass + 1), { "text-anchor": "end" });
        for (let at = 0; at <= question + pass; at += 1) {
          const kind = at === question + pass ? "written-token" : "read-token";
          svg.append(drawn("rect", { x: 28 + at * side, y, width: side - 2, height: high, rx: 2, class: kind }));
        }
      }
    });
    say("passes.passes", answer, formulas.whole(answer));
    say("passes.read", read, formulas.whole(read));
  });

  // K and V of some positions: a row each, numbers as shades; `mark(position)` is its class.
  function rows(place, labels, keys, values, mark) {
    const cell = (kind) => (number) => {
      const shade = Math.min(1, Math.abs(number) / 2);
      const made = element("td", { class: `${kind} ${number < 0 ? "below" : "above"}` }, [number.toFixed(2)]);
      made.style.setProperty("--shade", `${Math.round(8 + 40 * shade)}%`);
      return made;
    };
    const width = keys[0].length;
    const head = element("tr", {}, [
      element("td"), element("th", { colspan: width, scope: "colgroup" }, [words.key]),
      element("th", { colspan: width, scope: "colgroup" }, [words.value]),
    ]);
    const body = labels.map((label, at) => (at < keys.length
      ? element("tr", { class: mark(at) }, [
        element("th", { scope: "row" }, [label]), ...keys[at].map(cell("k")), ...values[at].map(cell("v")),
      ])
      : element("tr", { class: "none" }, [
        element("th", { scope: "row" }, [label]), element("td", { colspan: 2 * width }, [" "]),
      ])));
    find(place).replaceChildren(element("table", { class: "rows" }, [element("thead", {}, [head]), element("tbody", {}, body)]));
  }

  thing("same", () => {
    const [pass, layer, swap] = [value("same-pass"), Number(value("same-layer")), Number(value("same-swap"))];
    const { passes, swapped } = numbers.attention;
    const now = passes[pass - 1];
    const kept = (which) => passes.slice(0, pass).map((each) => each[which][layer][0]);
    const [keys, values] = [kept("cached_keys"), kept("cached_values")];
    rows("same-without", words.words, now.without_keys[layer], now.without_values[layer], () => "computed");
    rows("same-with", words.words, keys, values, (at) => (at === pass - 1 ? "computed" : "read"));
    const left = [...now.without_keys[layer].flat(), ...now.without_values[layer].flat(), ...now.without_last];
    const right = [...keys.flat(), ...values.flat(), ...now.cached_last];
    const same = left.filter((number, at) => Object.is(number, right[at])).length;
    const before = passes.slice(0, pass);
    const computed = (which) => before.reduce((sum, each) => sum + each[which][layer].length, 0);
    say("same.without", computed("without_keys"), formulas.whole(computed("without_keys")));
    say("same.with", computed("cached_keys"), formulas.whole(computed("cached_keys")));
    say("same.equal", [same, left.length], text("bits_all", { same, all: left.length }));
    find("same-swapped").hidden = swap < 0;
    if (swap < 0) return;
    const [whole, other] = [passes.at(-1), swapped[swap]];
    const differs = (at) => ["keys", "values"].some((which) =>
      other[which][layer][at].some((number, i) => !Object.is(number, whole[`without_${which}`][layer][at][i])));
    const labels = words.words.map((word, at) => (at === swap ? words.other : word));
    rows("same-changed", labels, other.keys[layer], other.values[layer], (at) => (differs(at) ? "changed" : "read"));
    const changed = labels.filter((_, at) => differs(at)).length;
    say("same.changed", changed, text("rows_of", { changed, all: labels.length }));
  });

  thing("work", () => {
    const [tokens, kind, ruler] = [value("work-tokens"), value("work-kind"), value("work-ruler")];
    const most = numbers.work_up_to;
    const [more, less] = kind === "dots" ? ["refeed_dots", "cached_dots"] : ["recompute_projections", "cached_projections"];
    const now = formulas.work(tokens);
    const label = text("chart_label", {
      what: words[kind], most: formulas.whole(most), tokens: formulas.whole(tokens),
      without: formulas.whole(now[more]), with: formulas.whole(now[less]),
    });
    picture("work-picture", 300, label, (svg, width, height) => {
      const log = ruler === "powers";
      const high = formulas.work(most)[more];
      const at = axes(svg, width, height, { low: log ? 1 : 0, high: most, log, name: words.axis_tokens },
        { low: log ? 1 : 0, high, log, name: words[kind] });
      const places = Array.from({ length: 121 }, (_, i) => Math.round(log ? most ** (i / 120) : 1 + (most - 1) * (i / 120)));
      for (const [which, css] of [[more, "without"], [less, "with"]]) {
        line(svg, places.map((n) => [at.x(n), at.y(formulas.work(n)[which])]), css);
        svg.append(drawn("circle", { cx: at.x(tokens), cy: at.y(now[which]), r: 5, class: `dot ${css}` }));
      }
      line(svg, [[at.x(tokens), at.inner.top], [at.x(tokens), at.inner.bottom]], "here");
    });
    say("work.without", now[more], formulas.whole(now[more]));
    say("work.with", now[less], formulas.whole(now[less]));
    const ratio = now[more] / now[less];
    say("work.ratio", ratio, formulas.grouped(formulas.decimals(ratio, 2)));
    say("work.passes", now.passes, formulas.whole(now.passes));
  });

  thing("grid", () => {
    const [tokens, on] = [value("grid-tokens"), value("grid-cache") === "on"];
    const counts = formulas.work(tokens);
    const computed = on ? counts.cached_projections : counts.recompute_projections;
    const read = counts.recompute_projections - computed;
    const last = on ? 1 : tokens;
    const wide = find("grid-picture").clientWidth;
    const side = Math.min(22, Math.max(9, (wide - 40) / tokens));
    picture("grid-picture", tokens * side + 30, text("grid_label", { computed, read }), (svg) => {
      letters(svg, 0, 12, words.axis_pass, { class: "name" });
      letters(svg, 34 + tokens * side / 2, 12, words.axis_token, { class: "name", "text-anchor": "middle" });
      for (let pass = 1; pass <= tokens; pass += 1) {
        const y = 20 + (pass - 1) * side;
        if (side >= 12 || pass % 2) letters(svg, 26, y + side / 2 + 4, String(pass), { "text-anchor": "end" });
        for (let at = 1; at <= tokens; at += 1) {
          const kind = at > pass ? "none" : on && at < pass ? "read" : "computed";
          svg.append(drawn("rect", { x: 34 + (at - 1) * side, y, width: side - 2, height: side - 2, rx: 2, class: `cell ${kind}` }));
        }
      }
    });
    say("grid.computed", computed, formulas.whole(computed));
    say("grid.read", read, formulas.whole(read));
    say("grid.last", last, formulas.whole(last));
  });
})();
