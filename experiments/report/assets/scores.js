// Score over evaluations: every scored program a dot, the best so far a line, phases as marks.

function scores(run, select) {
  if (!run.initial) return null;
  return section("scores", "Score over evaluations",
    "Every different program that ran, in the order of evaluation. Click a dot to open its program below." + selection(run),
    responsive((width) => scoreChart(run, width, select)),
    legend([["line best", "best so far"], ["dot agent", "research agent"], ["dot supporter", "supporter"],
      ["line promoted", "phase: reference promoted"], ["line kept", "phase: reference kept"]]));
}

function scoreChart(run, width, select) {
  const range = scoreRange(run), {curve} = run;
  const chart = new Chart(width, Math.min(380, Math.max(240, width * 0.4)),
    {domain: [0, Math.max(1, run.evaluated)], label: "different programs evaluated"},
    {domain: padded(range), label: "score (higher is better)"}, "Score over evaluations");
  for (const phase of run.tuned) chart.add(phaseMark(chart, run, phase));
  const dots = svg("g", {class: "dots", ...tooltip(run), onclick: (event) => {
    if (event.target.dataset.index) select(Number(event.target.dataset.index));
  }});
  const c = run.candidates;
  let below = 0;
  for (let i = 0; i < run.size; i++) {
    if (c.score[i] === null || c.duplicate[i] >= 0) continue;
    const low = c.score[i] < range[0];
    below += low;
    dots.append(svg("circle", {cx: chart.x(run.evaluations[i]).toFixed(1), cy: chart.y(c.score[i]).toFixed(1),
      r: low ? 1.5 : 2.5, class: c.names[c.origin[i]] === "supporter" ? "supporter" : "agent", "data-index": i}));
  }
  chart.add(dots, chart.steps([...curve, [run.evaluated, curve[curve.length - 1][1]]],
    {class: "series best"}));
  if (below) {
    chart.add(svg("text", {x: chart.x(0) + 6, y: chart.height - MARGIN.bottom - 6, class: "hint"},
      `${below} programs below the axis`));
  }
  return chart.root;
}

function phaseMark(chart, run, phase) {
  const x = chart.x(run.evaluationsAfter(phase.round)), promoted = phase.promoted;
  return svg("g", {class: promoted ? "promoted" : "kept"},
    svg("line", {x1: x, x2: x, y1: MARGIN.top, y2: chart.height - MARGIN.bottom}),
    svg("text", {x: x - 4, y: MARGIN.top + 9, "text-anchor": "end"}, `${promoted ? "▲" : "–"} ${phase.phase}`));
}
