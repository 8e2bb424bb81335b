// The gate: every phase's candidate against the trust region of Eq. 5, and the decision in words.

function gate(run) {
  const phases = run.tuned.filter((phase) => phase.decision);
  if (!run.phases.length) return null;
  const skipped = run.phases.filter((phase) => phase.skipped);
  return section("gate", "Gate decisions",
    "A phase's policy becomes the reference if it lies in the shaded region: a gain of at least ε_s within a KL of δ_H " +
    "(Eq. 5). Rules other than the gated one promote without asking; their policies are shown all the same.",
    phases.length ? responsive((width) => gateChart(phases, width)) : null,
    phases.length ? legend([["dot promoted", "promoted"], ["dot kept", "kept"], ["region", "trust region"]]) : null,
    el("ol", {class: "decisions"}, phases.map((phase) => el("li", {value: phase.phase},
      chip(phase.decision.promote ? "promoted" : "kept", phase.decision.promote ? "good" : ""), ` after round ${phase.round}: `,
      phase.decision.reason.replace(/^(kept|promoted): /, ""), (phase.warnings ?? []).map((text) => el("p", {class: "warning"}, text))))),
    skipped.map((phase) => el("p", {}, `Phase ${phase.phase} was skipped: `, phase.skipped)));
}

function gateChart(phases, width) {
  const decisions = phases.map((phase) => phase.decision);
  const {min_gain: floor, max_kl: budget} = decisions[decisions.length - 1];
  const gains = decisions.map((d) => d.gain ?? 0), kls = decisions.map((d) => d.kl ?? 0);
  const reach = Math.max(budget, ...kls) * 1.12 || 1;
  const span = padded([Math.min(floor, ...gains), Math.max(floor, ...gains)], 0.2);
  const chart = new Chart(width, Math.min(340, Math.max(230, width * 0.36)),
    {domain: [0, reach], label: "KL to the reference, nats per token", format: (v) => number(v, 2)},
    {domain: span, label: "gain in score", format: (v) => signed(v, 3)}, "Gain against KL per phase");
  chart.add(chart.rect(0, budget, floor, span[1], {class: "region"}),
    svg("text", {x: chart.x(budget) - 5, y: chart.y(span[1]) + 13, class: "hint", "text-anchor": "end"}, `δ_H = ${number(budget, 2)}`),
    svg("text", {x: chart.x(0) + 5, y: chart.y(floor) - 5, class: "hint"}, `ε_s = ${number(floor, 3)}`));
  phases.forEach((phase, k) => {
    const x = chart.x(kls[k]), y = chart.y(gains[k]);
    chart.add(svg("g", {class: phase.decision.promote ? "promoted" : "kept"}, svg("circle", {cx: x, cy: y, r: 6}),
      svg("text", {x: x + 9, y: y + 4}, phase.phase)));
  });
  return chart.root;
}
