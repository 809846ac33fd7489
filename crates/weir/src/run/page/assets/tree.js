// SPDX-License-Identifier: Apache-2.0 OR MIT
// Workloads as the tree of cgroups that they are the leaves of. Inner cgroups have sums; one with a single child
// stands before it on the same line, as in `weir top`.

const DEPTH_MAX = 32;
const tree = { root: null, folded: new Set(), lines: [], find: "", order: "bandwidth", onlyLimited: false };

function node(path, label) {
  return { path, label, children: new Map(), sorted: [], row: null, depth: 0, figures: null, limited: 0, count: 0,
    key: 0 };
}

// Is made again when workloads come or go.
function buildTree() {
  const root = node("", "");
  for (const row of state.rows.values()) {
    const parts = row.name.split("/");
    if (parts[0] === "") parts.shift();
    if (parts.length > DEPTH_MAX) parts.splice(DEPTH_MAX - 1, Infinity, parts.slice(DEPTH_MAX - 1).join("/"));
    let at = root;
    for (const part of parts) {
      let below = at.children.get(part);
      if (!below) at.children.set(part, (below = node(at.path + "/" + part, part)));
      at = below;
    }
    at.row = row;
  }
  for (const child of root.children.values()) settle(child, 0, true);
  root.sorted = [...root.children.values()];
  tree.root = root;
}

function settle(at, depth, isTop) {
  while (!at.row && at.children.size === 1) {
    const [below] = at.children.values();
    Object.assign(at, { label: at.label + "/" + below.label, path: below.path, children: below.children,
      row: below.row });
  }
  if (at.row && at.children.size > 0) {
    // A cgroup that is used itself, beside those in it.
    const own = node(at.path + "/.", ".");
    own.row = at.row;
    at.children = new Map([[".", own], ...at.children]);
    at.row = null;
  }
  at.depth = depth;
  if (isTop && firstRow(at).name.startsWith("/")) at.label = "/" + at.label;
  for (const child of at.children.values()) settle(child, depth + 1, false);
  at.sorted = [...at.children.values()];
  at.figures = at.row ? at.row.figures : new Array(FIGURES).fill(UNKNOWN);
}

function firstRow(at) {
  while (!at.row) [at] = at.children.values();
  return at.row;
}

// Sums of what is below. What is not known of some is the sum of the others.
function sumUp(at) {
  if (at.row) {
    at.limited = isLimited(at.row) ? 1 : 0;
    at.count = 1;
    return;
  }
  const sums = at.figures;
  sums[BANDWIDTH] = sums[CPU] = sums[THROTTLED] = UNKNOWN;
  at.limited = at.count = 0;
  for (const child of at.sorted) {
    sumUp(child);
    at.limited += child.limited;
    at.count += child.count;
    for (const place of [BANDWIDTH, CPU, THROTTLED]) {
      const value = child.figures[place];
      if (value >= 0) sums[place] = Math.max(0, sums[place]) + value;
    }
  }
}

const PLACES = { bandwidth: BANDWIDTH, cpu: CPU, throttled: THROTTLED };

// Figures in steps of about a tenth: rows that differ by less stand by name and do not jump about.
function sortTree(at) {
  const place = PLACES[tree.order];
  for (const child of at.sorted) {
    const value = place === undefined ? 0 : child.figures[place];
    child.key = value > 0 ? Math.round(Math.log1p(value) * 10) : value;
    sortTree(child);
  }
  at.sorted.sort((a, b) => b.key - a.key || (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

function matches(at) {
  if (tree.onlyLimited && !isLimited(at.row)) return false;
  return tree.find === "" || (at.row.tag + " " + at.row.name).toLowerCase().includes(tree.find);
}

// Adds the lines of a node; whether there are any.
function layOut(at, lines, isFolded) {
  const place = lines.length;
  if (at.row) {
    if (matches(at)) lines.push(at);
    return lines.length > place;
  }
  lines.push(at);
  const hides = tree.find === "" && tree.folded.has(at.path);
  let any = false;
  for (const child of at.sorted) {
    const below = hides ? [] : lines;
    any = layOut(child, below, isFolded || hides) || any;
  }
  if (!any) lines.length = place;
  return any;
}

// The lines that can be seen, in their order. Moves nothing between two calls but what came or went.
function showTree(mayMove) {
  const isNew = state.hasNewRows || !tree.root;
  if (isNew) {
    buildTree();
    state.hasNewRows = false;
  }
  for (const top of tree.root.sorted) sumUp(top);
  if (isNew || mayMove) {
    sortTree(tree.root);
    tree.lines = [];
    for (const top of tree.root.sorted) layOut(top, tree.lines, false);
  }
}

function isOpen(at) {
  return tree.find !== "" || !tree.folded.has(at.path);
}
