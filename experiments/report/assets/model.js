// The embedded data as objects: one Run per run, candidates by their position in its columns.

class Run {
  constructor(data) {
    Object.assign(this, data);
    const columns = data.candidates;
    this.size = columns.id.length;
    this.children = Array.from({length: this.size}, () => []);
    columns.parent.forEach((parent, i) => { if (parent >= 0) this.children[parent].push(i); });
    this.position = new Map(columns.id.map((id, i) => [id, i]));
    this.bestIndex = this.best ? this.position.get(this.best.id) : -1;
    this.evaluations = columns.evaluations;
  }

  text(number) {
    return this.programs.texts[number].map((line) => this.programs.lines[line]).join("\n");
  }

  candidate(i) {
    const c = this.candidates;
    const metrics = c.metrics[i] ?? (c.duplicate[i] >= 0 ? c.metrics[c.duplicate[i]] : null);
    return {
      index: i, id: c.id[i], round: c.round[i], island: c.island[i], origin: c.names[c.origin[i]],
      style: c.names[c.style[i]], hole: c.names[c.hole[i]], status: c.names[c.status[i]],
      detail: c.names[c.detail[i]], diagnosis: c.names[c.diagnosis[i]],
      parent: c.parent[i], duplicate: c.duplicate[i], copy: c.copy[i] === 1,
      score: c.score[i], program: this.text(c.program[i]), completion: this.text(c.completion[i]),
      metrics: metrics ? c.metricNames.map((name, k) => [name, metrics[k]]).filter(([, value]) => value !== null) : [],
    };
  }

  // The chain from a candidate up to the program its island started from.
  ancestors(i) {
    const chain = [];
    for (let at = i; at >= 0 && chain.length < this.size; at = this.candidates.parent[at]) chain.push(at);
    return chain;
  }

  // Programs evaluated when a round had ended.
  evaluationsAfter(round) {
    const rounds = this.candidates.round;
    let low = 0, high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rounds[middle] <= round) low = middle + 1; else high = middle;
    }
    return low ? this.evaluations[low - 1] : 0;
  }

  get tuned() {
    return this.phases.filter((phase) => !phase.skipped);
  }
}

// Scores far below the rest (a program that plays at random) would flatten everything else: the lower end of a
// score axis is the start's score less the whole gain, or the worst score if that is nearer.
function scoreRange(run) {
  const scores = run.candidates.score.filter((score) => score !== null);
  if (!scores.length) return [-1, 0];
  const top = scores.reduce((a, b) => Math.max(a, b)), bottom = scores.reduce((a, b) => Math.min(a, b));
  const start = run.initial.score ?? bottom;
  const gain = Math.max(top - start, 0.05 * Math.abs(start), 1e-9);
  return [Math.max(bottom, start - gain), top];
}

// Position of a score between the bounds, as a colour from the style sheet's scale (--scale-0 … --scale-6).
const SCALE_STEPS = 7;

function scoreClass(score, [low, high]) {
  if (score === null) return "failed";
  const share = high > low ? (score - low) / (high - low) : 1;
  return `scale-${Math.min(SCALE_STEPS - 1, Math.max(0, Math.floor(share * SCALE_STEPS)))}`;
}
