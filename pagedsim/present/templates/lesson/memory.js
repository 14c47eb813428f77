"use strict";
// Sections 5 to 7 and 9: what K and V take, and how far that goes.
(() => {
  const { numbers, words, text, value, say, find, element, drawn, picture, letters, axes, line, area, thing, set } = parts;
  const { whole, bytes, significant } = formulas;
  const model = (name) => numbers.models.find((each) => each.name === name);

  // Section 5: the symbols of the formula and the controls that move them light up together.
  const place = document.querySelector("[data-thing=formula]");
  function light(symbol) {
    for (const each of place.querySelectorAll("[data-symbol]")) {
      each.classList.toggle("lit", each.dataset.symbol === symbol);
    }
    find("formula-about").textContent = words.about[symbol];
  }
  for (const each of place.querySelectorAll("[data-symbol]")) {
    for (const event of ["focusin", "input", "pointerenter"]) {
      each.addEventListener(event, () => light(each.dataset.symbol));
    }
    if (each.tagName === "BUTTON") {
      each.addEventListener("click", () => {
        const control = place.querySelector(`.control[data-symbol=${each.dataset.symbol}]`);
        (control?.querySelector("input:checked") ?? control?.querySelector("input"))?.focus();
        light(each.dataset.symbol);
      });
    }
  }
  light("two");

  thing("formula", () => {
    const [layers, heads, size] = [value("formula-layers"), value("formula-heads"), Number(value("formula-size"))];
    const bits = numbers.dtypes[value("formula-precision")];
    const token = formulas.token(layers, heads, size, bits);
    const factors = { two: 2, layers, heads, size, bytes: bits / 8 };
    for (const [symbol, factor] of Object.entries(factors)) {
      say(`formula.${symbol}`, factor, factor === 0.5 ? "½" : whole(factor));
    }
    say("formula.token", token, bytes(token));
    say("formula.thousand", 1000 * token, bytes(1000 * token));
  });

  // Section 6. The KV heads that a model could have divide its heads.
  function offer() {
    const { heads, kv_heads: own } = model(value("calculator-model"));
    const able = Array.from({ length: heads }, (_, i) => i + 1).filter((each) => heads % each === 0);
    find("calculator-heads").replaceChildren(...able.map((each) => {
      const option = element("option", { value: each }, [String(each)]);
      option.selected = each === own;
      return option;
    }));
  }
  offer();
  find("calculator-model").addEventListener("input", offer);

  const calculated = thing("calculator", () => {
    const chosen = model(value("calculator-model"));
    const [length, batch, heads] = [value("calculator-length"), value("calculator-batch"), Number(value("calculator-heads"))];
    const token = formulas.token(chosen.layers, heads, chosen.head_dim, numbers.dtypes[value("calculator-precision")]);
    const one = token * length;
    const all = one * batch;
    const [weights, ratio] = [chosen.weights_bytes, all / chosen.weights_bytes];
    const equal = Math.floor(weights / token);
    say("calculator.token", token, bytes(token));
    say("calculator.one", one, bytes(one));
    say("calculator.all", all, bytes(all));
    say("calculator.weights", weights, bytes(weights));
    say("calculator.ratio", ratio, text("times", { x: significant(ratio) }));
    say("calculator.equal", equal, whole(equal));
    find("calculator-remark").textContent = length > chosen.max_len ? text("beyond_trained", { most: whole(chosen.max_len) }) : "";
    const most = Math.max(all, weights);
    find("calculator-bars").replaceChildren(...[["weights", weights], ["live", all]].map(([kind, size]) => {
      const bar = element("span", { class: kind });
      bar.style.width = `${Math.max(0.3, 100 * size / most)}%`;
      return element("div", {}, [element("small", {}, [words[kind]]), bar]);
    }));
  });
  for (const button of document.querySelectorAll(".examples button")) {
    button.addEventListener("click", () => {
      set("calculator-model", numbers.models[0].name);
      offer();
      set("calculator-length", Number(button.dataset.length));
      set("calculator-batch", button.dataset.batch);
      document.querySelector("#calculator-precision input").checked = true;
      calculated();
    });
  }

  // Section 7, in blocks; one of them is the engine's own.
  thing("card", () => {
    const named = { card: value("card-card"), model: value("card-model"), kv_dtype: value("card-precision") };
    const room = numbers.rooms.find((each) => Object.entries(named).every(([key, name]) => each[key] === name));
    const [length, batch, chosen] = [value("card-length"), value("card-batch"), model(named.model)];
    const label = document.querySelector("[data-number='card.left']").previousElementSibling;
    if (room.blocks === null) {
      for (const name of ["left", "longest", "fit"]) say(`card.${name}`, null, "–");
      label.textContent = words.left;
      find("card-picture").replaceChildren(element("p", { class: "care" }, [text("too_large")]));
      return;
    }
    const [each, able] = [formulas.blocks(length, numbers.block), room.blocks - 1];
    const block = numbers.block * room.kv_bytes_per_token;
    const left = (able - each * batch) * block;
    const longest = Math.floor(able / batch) * numbers.block;
    label.textContent = left < 0 ? words.over : words.left;
    say("card.left", left, bytes(Math.abs(left)));
    say("card.longest", longest, whole(longest));
    say("card.fit", Math.floor(able / each), whole(Math.floor(able / each)));
    const [weights, work] = [chosen.weights_bytes, room.activation_bytes];
    const used = (tokens) => weights + work + tokens * batch * room.kv_bytes_per_token;
    picture("card-picture", 300, text("card_label", { longest: whole(longest) }), (svg, width, height) => {
      const far = 1.25 * Math.max(longest, length);
      const gib = (size) => size / 2 ** 30;
      const at = axes(svg, width, height, { low: 0, high: far, name: words.axis_length },
        { low: 0, high: 1.05 * gib(Math.max(used(far), room.budget_bytes)), name: words.axis_memory });
      const band = (low, high, kind, end = far) => area(svg, [
        [at.x(0), at.y(gib(low(0)))], [at.x(0), at.y(gib(high(0)))], [at.x(end), at.y(gib(high(end)))], [at.x(end), at.y(gib(low(end)))],
      ], kind);
      band(() => 0, () => weights, "weights");
      band(() => weights, () => weights + work, "room");
      band(() => weights + work, used, "live faded");
      band(() => weights + work, used, "live", length);
      line(svg, [[at.x(0), at.y(gib(room.budget_bytes))], [at.x(far), at.y(gib(room.budget_bytes))]], "edge");
      line(svg, [[at.x(length), at.y(gib(used(length)))], [at.x(length), at.y(gib(room.budget_bytes))]], "here");
      svg.append(drawn("circle", { cx: at.x(length), cy: at.y(gib(used(length))), r: 5, class: "dot ink" }));
      letters(svg, at.inner.left + 6, at.y(gib(weights / 2)) + 4, words.weights, { class: "on" });
    });
  });

  // Section 9: bytes a token are the model's; what is held is the server's.
  thing("kinds", () => {
    const [length, precision, most] = [value("kinds-length"), value("kinds-precision"), numbers.kinds_max_len];
    const ways = numbers.kinds.map((kind) => [kind.name.toLowerCase(), kind, most]);
    ways.push(["paged", numbers.kinds.find((kind) => kind.name === "GQA"), formulas.blocks(length, numbers.block) * numbers.block]);
    const highest = Math.max(...numbers.kinds.map((kind) => kind.kv_bytes_per_token[precision])) * most;
    for (const [name, kind, slots] of ways) {
      const token = kind.kv_bytes_per_token[precision];
      say(`kinds.${name}.token`, token, bytes(token));
      say(`kinds.${name}.used`, token * length, bytes(token * length));
      say(`kinds.${name}.held`, token * slots, bytes(token * slots));
      const column = document.querySelector(`[data-kind=${name}] .column`);
      column.querySelector(".live").style.height = `${100 * token * length / highest}%`;
      column.querySelector(".hatched").style.height = `${100 * token * (slots - length) / highest}%`;
    }
  });
})();
