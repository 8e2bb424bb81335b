// Differences between two programs, line by line and, within a changed line, word by word.

const WORDS = /[A-Za-z_]\w*|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\s+|[^\w\s]/g;
const LARGEST_TABLE = 4e6;

// Longest common subsequence of two arrays as [kind, item] rows: " " kept, "-" only in a, "+" only in b.
function differences(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middle = changed(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...a.slice(0, start).map((x) => [" ", x]), ...middle, ...a.slice(a.length - end).map((x) => [" ", x])];
}

function changed(a, b) {
  if (a.length * b.length > LARGEST_TABLE) return [...a.map((x) => ["-", x]), ...b.map((x) => ["+", x])];
  const width = b.length + 1, table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j]
        ? table[(i + 1) * width + j + 1] + 1
        : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const rows = [];
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { rows.push([" ", a[i]]); i++; j++; }
    else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) rows.push(["-", a[i++]]);
    else rows.push(["+", b[j++]]);
  }
  while (i < a.length) rows.push(["-", a[i++]]);
  while (j < b.length) rows.push(["+", b[j++]]);
  return rows;
}

// A table of the changed program; runs of equal lines longer than `context` on both sides are folded.
function diffView(before, after, context = 4) {
  const rows = differences(before.split("\n"), after.split("\n"));
  const near = rows.map((_, i) => rows.slice(Math.max(0, i - context), i + context + 1).some(([kind]) => kind !== " "));
  const body = el("tbody");
  let oldLine = 0, newLine = 0, folded = 0;
  const flush = () => {
    if (folded) body.append(el("tr", {class: "fold"}, el("td", {colspan: 3}, `${folded} equal ${folded === 1 ? "line" : "lines"}`)));
    folded = 0;
  };
  rows.forEach(([kind, line], i) => {
    if (kind !== "+") oldLine++;
    if (kind !== "-") newLine++;
    if (!near[i]) { folded++; return; }
    flush();
    const partner = kind === " " ? null : counterpart(rows, i);
    body.append(el("tr", {class: {" ": "same", "-": "removed", "+": "added"}[kind]},
      el("td", {class: "line"}, kind === "+" ? newLine : oldLine), el("td", {class: "sign"}, kind.trim()),
      el("td", {}, el("code", {}, partner === null ? highlighted(line) : words(line, partner)))));
  });
  flush();
  return el("table", {class: "code diff"}, body);
}

// The line on the other side that a changed line replaces: the k-th removed line of a block and its k-th added one.
function counterpart(rows, i) {
  const kind = rows[i][0];
  let start = i;
  while (start > 0 && rows[start - 1][0] !== " ") start--;
  const block = [];
  for (let k = start; k < rows.length && rows[k][0] !== " "; k++) block.push(k);
  const own = block.filter((k) => rows[k][0] === kind), other = block.filter((k) => rows[k][0] !== kind);
  const partner = other[own.indexOf(i)];
  return partner === undefined ? null : rows[partner][1];
}

function words(line, partner) {
  const split = (text) => text.match(WORDS) ?? [];
  return differences(split(partner), split(line)).filter(([kind]) => kind !== "-")
    .map(([kind, word]) => (kind === "+" && word.trim() ? el("mark", {}, word) : document.createTextNode(visible(word))));
}

function codeView(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  return el("table", {class: "code"}, el("tbody", {}, lines.map((line, i) =>
    el("tr", {}, el("td", {class: "line"}, i + 1), el("td", {}, el("code", {}, highlighted(line)))))));
}

const PYTHON = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(and|as|assert|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b|\b(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\b/g;
const KINDS = ["comment", "string", "keyword", "number"];

function highlighted(line) {
  const nodes = [];
  let at = 0;
  for (const match of line.matchAll(PYTHON)) {
    nodes.push(document.createTextNode(visible(line.slice(at, match.index))));
    nodes.push(el("span", {class: KINDS[match.slice(1).findIndex((group) => group !== undefined)]}, match[0]));
    at = match.index + match[0].length;
  }
  nodes.push(document.createTextNode(visible(line.slice(at))));
  return nodes;
}
