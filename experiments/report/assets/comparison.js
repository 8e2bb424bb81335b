// Several runs against each other: one line per configuration, with a band where it has more than one seed.

function comparison(bands) {
  return section("comparison", "Comparison of runs",
    "Best score so far on the training seeds, mean over the runs of a configuration, up to its shortest run.",
    responsive((width) => bandChart(bands, width)),
    legend(bands.map((band, k) => [`line series-${k % 8}`, `${band.label}: ${band.meaning}`])));
}

function bandChart(bands, width) {
  const values = bands.flatMap((band) => [...band.mean, ...band.low, ...band.high]);
  const domain = padded([values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))]);
  const end = Math.max(...bands.map((band) => band.evaluations[band.evaluations.length - 1]));
  const chart = new Chart(width, Math.min(400, Math.max(250, width * 0.42)),
    {domain: [0, end], label: "different programs evaluated"}, {domain, label: "best score so far"}, "Comparison of runs");
  bands.forEach((band, k) => {
    if (band.low.length) chart.add(chart.area(band.evaluations, band.low, band.high, {class: `area series-${k % 8}`}));
  });
  bands.forEach((band, k) => chart.add(chart.line(band.evaluations.map((x, i) => [x, band.mean[i]]), {class: `series series-${k % 8}`})));
  return chart.root;
}

function learning(run) {
  if (!run.learning.length) return null;
  return section("learning", "What tuning changed",
    "Left: the search against its frozen control. Right: the agent alone, with 95 % intervals over instances.",
    run.learning.map((picture) => el("figure", {},
      el("img", {src: `data:image/png;base64,${picture.png}`, alt: "Best score with and without tuning, and best gain of base and tuned agent"}),
      picture.text.split("\n").map((line) => el("p", {class: "lead"}, line)))));
}

function pictures(run) {
  if (!run.pictures.length) return null;
  return section("environment", "The environment's picture", "The first and the best program, evaluated once more on the run's training task.",
    el("div", {class: "pair"}, run.pictures.map((picture) => el("figure", {}, el("figcaption", {}, picture.title),
      picture.png ? el("img", {src: `data:image/png;base64,${picture.png}`, alt: `${picture.title}, drawn by its environment`}) : null,
      el("p", {}, picture.text)))));
}
