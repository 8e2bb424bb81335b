// How widely the islands have searched: best score, different programs and clusters, round by round.

function islands(run) {
  const {coverage, units} = run;
  if (coverage.rounds.length < 2) return null;
  const lines = (key) => coverage.islands.map((island, k) => [`island ${island}`, coverage.rounds, coverage[key][k]]);
  const share = (key) => [key, units.map((u) => u.round), units.map((u) => u[key] / Math.max(1, u.samples))];
  const chart = (title, series, label, format) => el("figure", {}, el("figcaption", {}, title),
    responsive((width) => lineChart(series, width, label, format)), seriesLegend(series));
  return section("islands", "Islands and clusters",
    "Best score so far of every island (dark is low, bright is high), and how much ground they have covered.",
    el("figure", {}, el("figcaption", {}, "Best score so far by island"), responsive((width) => heatmap(run, width))),
    el("div", {class: "pair"},
      coverage.clusters ? chart("Clusters with a member", lines("clusters"), "clusters", (v) => number(v, 0)) : null,
      chart("Different programs that ran", lines("programs"), "programs", (v) => number(v, 0)),
      units.length > 1
        ? chart("Shares of a round's samples (new: valid, not its parent again; distinct: not seen before either)",
          ["valid", "new", "improving", "distinct"].map(share), "share", (v) => percent(v))
        : null,
      units.length > 1 ? statusChart(units) : null));
}

function heatmap(run, width) {
  const {islands, rounds, best} = run.coverage, range = scoreRange(run);
  const height = 34 + 20 * islands.length, root = svg("svg", {width, height, role: "img", "aria-label": "Best score by island and round"});
  const left = 46, cell = (width - left - 4) / rounds.length, every = Math.ceil(40 / cell);
  islands.forEach((island, k) => {
    root.append(svg("text", {x: 0, y: 20 * k + 14, class: "hint"}, `isl. ${island}`));
    rounds.forEach((round, i) => root.append(svg("rect", {x: (left + cell * i).toFixed(2), y: 20 * k, height: 18,
      width: Math.max(0.5, cell - (cell > 6 ? 1 : 0)).toFixed(2), class: scoreClass(best[k][i], range)},
    svg("title", {}, `island ${island}, round ${round}: ${number(best[k][i])}`))));
  });
  rounds.filter((round) => round % every === 0).forEach((round) => root.append(svg("text", {x: left + cell * (round + 0.5),
    y: height - 16, class: "hint", "text-anchor": "middle"}, round)));
  root.append(svg("text", {x: left + (width - left) / 2, y: height - 2, class: "hint", "text-anchor": "middle"}, "round"));
  return root;
}

// series: [name, xs, ys]
function lineChart(series, width, label, format) {
  const whole = label !== "share";
  const all = series.flatMap(([, , ys]) => ys).filter((v) => v !== null);
  const chart = new Chart(width, 220, {domain: [0, Math.max(1, ...series.map(([, xs]) => xs[xs.length - 1]))], label: "round"},
    {domain: [0, Math.max(...all, 0) * 1.05 || 1], label, format, whole}, label);
  series.forEach(([, xs, ys], k) => chart.add(chart.line(xs.map((x, i) => [x, ys[i] ?? 0]), {class: `series series-${k % 8}`})));
  return chart.root;
}

function seriesLegend(series) {
  return legend(series.map(([name], k) => [`line series-${k % 8}`, name]));
}

function statusChart(rounds) {
  const names = [...new Set(rounds.flatMap((unit) => Object.keys(unit.statuses)))].sort((a, b) => (b === "ok") - (a === "ok"));
  const series = names.map((name) => [name, rounds.map((u) => u.round), rounds.map((u) => u.statuses[name] ?? 0)]);
  return el("figure", {}, el("figcaption", {}, "How evaluations ended"),
    responsive((width) => lineChart(series, width, "candidates", (v) => number(v, 0))), seriesLegend(series));
}
