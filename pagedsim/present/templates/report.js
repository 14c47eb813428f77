"use strict";
// Draws the series of the page. All texts of the input reach it as text, and go to plotly escaped.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [...document.querySelectorAll(".chart")];
  const hidden = new Set();
  const drawn = new Set();
  const coarse = matchMedia("(pointer: coarse)").matches;
  let range = null; // of time, in all charts; null is all of it
  let passing = false; // a range is being handed on

  const unpacked = (text) => {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const escaped = (text) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const end = Math.max(0, ...data.runs.map((run) => unpacked(run.at).at(-1) ?? 0));

  function line(run, index, at, values, more) {
    return {
      type: "scatter", mode: "lines", x: at, y: values, name: escaped(run.name),
      line: { color: run.color, dash: run.dash, width: 1.6, ...more },
      visible: !hidden.has(index), hovertemplate: "%{y:,.4~g}",
    };
  }

  const traces = {
    batch: () => data.runs.map((run, i) => line(run, i, unpacked(run.at), unpacked(run.batch))),
    queue: () => data.runs.map((run, i) =>
      line(run, i, unpacked(run.queue.at), unpacked(run.queue.requests), { shape: "hv" })),
    latency: (box) => data.runs.map((run, i) => {
      const found = run.latency[box.dataset.key];
      const unit = box.dataset.unit;
      const times = unpacked(found.s).map((s) => (unit === "ms" ? 1000 * s : s));
      const trace = line(run, i, times, unpacked(found.share), { shape: "hv" });
      trace.hovertemplate = `%{y:.1f} % within %{x:.3~g} ${unit}`;
      return trace;
    }),
    memory: (box) => {
      const run = data.runs[Number(box.dataset.run)];
      const at = unpacked(run.at);
      const top = new Float32Array(at.length);
      return Object.keys(run.terms).map((term, place) => {
        const share = unpacked(run.terms[term]);
        share.forEach((value, i) => { top[i] += value; });
        return {
          type: "scatter", mode: "lines", x: at, y: top.slice(), customdata: share, name: term,
          line: { width: 0, color: ink(`--${term}`) }, fillcolor: ink(`--${term}`),
          fill: place ? "tonexty" : "tozeroy", hovertemplate: "%{customdata:.1f} %",
        };
      });
    },
  };

  function axis(title, more) {
    return {
      title: { text: title, font: { size: 12 }, standoff: 8 }, gridcolor: ink("--rule"),
      linecolor: ink("--rule"), zeroline: false, automargin: true, tickfont: { size: 11 }, ...more,
    };
  }

  function decades(box) {
    const every = data.runs.map((run) => unpacked(run.latency[box.dataset.key].s).filter((s) => s > 0));
    const known = every.filter((times) => times.length);
    if (!known.length) return 0;
    return Math.log10(Math.max(...known.map((t) => t.at(-1))) / Math.min(...known.map((t) => t[0])));
  }

  function layout(box) {
    const kind = box.dataset.chart;
    const timed = kind !== "latency";
    const time = range ? { range } : { range: [0, end || 1] };
    const run = data.runs[Number(box.dataset.run ?? 0)];
    const span = timed && run && run.span && !run.whole ? run.span : null;
    return {
      font: { family: "system-ui, sans-serif", size: 12, color: ink("--faint") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      margin: { l: 46, r: 10, t: 8, b: 38 }, hovermode: timed ? "x unified" : "closest",
      dragmode: coarse ? false : "zoom",
      hoverlabel: { bgcolor: ink("--raised"), font: { color: ink("--ink") }, namelength: 34 },
      xaxis: timed
        ? axis("s", { ...time, hoverformat: ",.2f", ticksuffix: "" })
        : axis(box.dataset.unit, { type: "log", dtick: decades(box) < 2 ? "D2" : 1 }),
      yaxis: kind === "memory" ? axis("", { range: [0, 100], fixedrange: true, dtick: 50, ticksuffix: " %" })
        : timed ? axis("", { rangemode: "tozero", fixedrange: true })
        : axis("", { range: [0, 100], fixedrange: true, ticksuffix: " %" }),
      shapes: span ? [{
        type: "rect", xref: "x", yref: "paper", x0: span[0], x1: span[1], y0: 0, y1: 1,
        line: { color: ink("--ink"), width: 1, dash: "dot" },
      }] : [],
    };
  }

  const config = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };

  function draw(box) {
    const first = !drawn.has(box);
    drawn.add(box);
    Plotly.react(box, traces[box.dataset.chart](box), layout(box), config);
    if (first && box.dataset.chart !== "latency") box.on("plotly_relayout", (change) => moved(box, change));
  }

  function moved(box, change) {
    if (passing) return;
    if (change["xaxis.autorange"]) range = null;
    else if ("xaxis.range[0]" in change) range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    else if (change["xaxis.range"]) range = [...change["xaxis.range"]];
    else return;
    show();
  }

  function show() {
    passing = true;
    const timed = [...drawn].filter((box) => box.dataset.chart !== "latency");
    Promise.all(timed.map((box) => Plotly.relayout(box, { "xaxis.range": range ?? [0, end || 1], "xaxis.autorange": false })))
      .finally(() => { passing = false; });
  }

  function again() { drawn.forEach(draw); }

  const near = new IntersectionObserver((seen) => {
    for (const each of seen) {
      if (each.isIntersecting) { near.unobserve(each.target); if (!drawn.has(each.target)) draw(each.target); }
    }
  }, { rootMargin: "600px" });

  for (const box of charts) {
    near.observe(box);
    box.addEventListener("keydown", (event) => {
      if (box.dataset.chart === "latency" || event.ctrlKey || event.metaKey || event.altKey) return;
      const [low, high] = range ?? [0, end];
      const [width, middle] = [high - low, (low + high) / 2];
      const to = {
        ArrowLeft: [low - width / 4, high - width / 4], ArrowRight: [low + width / 4, high + width / 4],
        "+": [middle - width / 4, middle + width / 4], "=": [middle - width / 4, middle + width / 4],
        "-": [middle - width, middle + width], 0: null,
      };
      if (!(event.key in to)) return;
      event.preventDefault();
      range = to[event.key];
      show();
    });
  }

  for (const button of document.querySelectorAll(".runs button")) {
    button.addEventListener("click", () => {
      const index = Number(button.dataset.run);
      if (!hidden.delete(index)) hidden.add(index);
      button.setAttribute("aria-pressed", String(!hidden.has(index)));
      for (const box of drawn) {
        if (box.dataset.chart !== "memory") Plotly.restyle(box, { visible: !hidden.has(index) }, [index]);
      }
    });
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        const chosen = getSelection();
        chosen.selectAllChildren(code);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", again);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((each) => { each.dataset.was = each.open; each.open = true; });
    charts.forEach(draw);
  });
  addEventListener("afterprint", () => {
    document.querySelectorAll("details").forEach((each) => { each.open = each.dataset.was === "true"; });
    again();
  });
})();
