// The gate: every phase's candidates against the trust region of Eq. 5, and the decision in words.

function gate(run) {
  if (!run.phases.length) return null;
  const measured = run.tuned.filter((phase) => phase.gain !== null && phase.kl !== null);
  const limits = [...measured].reverse().find((phase) => phase.decision)?.decision;
  return section("gate", "Gate decisions",
    "A phase's policy becomes the reference if it lies in the shaded region: a gain of at least ε_s within a KL of δ_H " +
    "(Eq. 5). Rules other than the gated one do not ask.",
    measured.length ? responsive((width) => gateChart(measured, limits, width)) : null,
    measured.length ? legend([["dot promoted", "promoted"], ["dot kept", "kept"], ["dot agent", "other checkpoints of the phase"],
      ["region", "trust region"]]) : null,
    el("ol", {class: "decisions"}, run.phases.map((phase) => el("li", {value: phase.phase}, decisionText(phase)))));
}

function decisionText(phase) {
  if (phase.skipped) return [chip("skipped", ""), `after round ${phase.round}: `, phase.skipped];
  const {decision} = phase;
  const reason = decision ? decision.reason.replace(/^(kept|promoted): /, "")
    : `the reference rule decides without a gate; KL ${number(phase.kl, 3)}`;
  return [chip(phase.promoted ? "promoted" : "kept", phase.promoted ? "good" : ""), `after round ${phase.round}: `, reason,
    (phase.warnings ?? []).map((text) => el("p", {class: "warning"}, text))];
}

function gateChart(phases, limits, width) {
  const others = phases.flatMap((phase) => (phase.candidates ?? []).filter((c, k) => k !== phase.chosen && c.gain !== null));
  const floor = limits ? limits.min_gain : 0, budget = limits ? limits.max_kl : 0;
  const all = [...phases, ...others];
  const reach = Math.max(budget, ...all.map((p) => p.kl)) * 1.12 || 1;
  const span = padded([Math.min(floor, ...all.map((p) => p.gain)), Math.max(floor, ...all.map((p) => p.gain))], 0.2);
  const chart = new Chart(width, Math.min(340, Math.max(230, width * 0.36)),
    {domain: [0, reach], label: "KL to the reference, nats per token", whole: false, format: (v) => number(v, 2)},
    {domain: span, label: "gain Ŝ over the reference", format: (v) => signed(v, 3)}, "Gain against KL per phase");
  if (limits) {
    chart.add(chart.rect(0, budget, floor, span[1], {class: "region"}),
      svg("text", {x: chart.x(budget) - 5, y: chart.y(span[1]) + 13, class: "hint", "text-anchor": "end"}, `δ_H = ${number(budget, 2)}`),
      svg("text", {x: chart.x(0) + 5, y: chart.y(floor) - 5, class: "hint"}, `ε_s = ${number(floor, 3)}`));
  }
  for (const other of others) chart.add(svg("circle", {cx: chart.x(other.kl), cy: chart.y(other.gain), r: 3, class: "agent"}));
  for (const phase of phases) {
    const x = chart.x(phase.kl), y = chart.y(phase.gain), half = phase.gain_error ?? 0;
    chart.add(svg("g", {class: phase.promoted ? "promoted" : "kept"},
      svg("line", {x1: x, x2: x, y1: chart.y(phase.gain - half), y2: chart.y(phase.gain + half), class: "error"}),
      svg("circle", {cx: x, cy: y, r: 6}), svg("text", {x: x + 9, y: y + 4}, phase.phase)));
  }
  return chart.root;
}
