// SPDX-License-Identifier: Apache-2.0 OR MIT
// When workloads were limited, what changed, and where workloads stall.

const LANES_MAX = 12;
const lanes = [];

// Spans by workload, those limited now first, then those that were so last.
function gather() {
  const from = state.now - state.window;
  const all = new Map();
  const add = (name, begin, end, isNow) => {
    let lane = all.get(name);
    if (!lane) all.set(name, (lane = { name, spans: [], total: 0, end: 0, isNow: false }));
    const span = [Math.max(begin, from), Math.min(end, state.now)];
    lane.spans.push(span);
    lane.total += span[1] - span[0];
    lane.end = Math.max(lane.end, end);
    lane.isNow = lane.isNow || isNow;
  };
  for (const [name, begin, end] of state.spans) if (end >= from) add(name, begin, end, false);
  for (const row of state.rows.values()) {
    if (row.figures[SINCE] >= 0) add(row.name, state.base + row.figures[SINCE], state.now, true);
  }
  const order = (a, b) => b.isNow - a.isNow || (a.isNow ? b.total - a.total : b.end - a.end) ||
    (a.name < b.name ? -1 : 1);
  return [...all.values()].sort(order);
}

function makeLane() {
  const lane = { box: make("div"), name: make("span"), svg: draw("svg", { preserveAspectRatio: "none",
    viewBox: "0 0 1000 10", "aria-hidden": "true" }), bar: draw("path", { class: "limited" }) };
  lane.box.setAttribute("role", "listitem");
  lane.svg.append(lane.bar);
  lane.box.append(lane.name, lane.svg);
  byId("lanes").append(lane.box);
  return lane;
}

function showLanes() {
  const found = gather();
  const shown = found.slice(0, LANES_MAX);
  say(byId("window"), String(Math.round(state.window / 60000)));
  show(byId("no-lanes"), found.length === 0);
  while (lanes.length > shown.length) lanes.pop().box.remove();
  while (lanes.length < shown.length) lanes.push(makeLane());
  shown.forEach((lane, place) => showLane(lanes[place], lane));
  const more = found.length - shown.length;
  show(byId("more-lanes"), more > 0);
  say(byId("more-lanes"), more + " more workloads were limited");
}

function showLane(at, lane) {
  const x = (ms) => (1000 * (ms - (state.now - state.window))) / state.window;
  const bars = lane.spans.map(([from, to]) => {
    const begin = x(from).toFixed(1);
    const end = Math.max(x(to), x(from) + 2).toFixed(1);
    return `M${begin} 1H${end}V9H${begin}z`;
  });
  mark(at.bar, "d", bars.join(""));
  mark(at.box, "class", lane.isNow ? "lane now" : "lane");
  say(at.name, short(lane.name, 34));
  const times = lane.spans.length === 1 ? "once" : lane.spans.length + " times";
  mark(at.box, "aria-label", lane.name + ": limited " + times + ", for " + duration(lane.total) +
    (lane.isNow ? ", and now" : ", not now"));
  mark(at.name, "title", lane.name);
}

function showChanges() {
  if (!state.hasNewChanges) return;
  state.hasNewChanges = false;
  const list = byId("changes");
  show(byId("no-changes"), state.changes.length === 0);
  const newest = state.changes.slice().reverse();
  while (list.children.length > newest.length) list.lastElementChild.remove();
  while (list.children.length < newest.length) {
    const line = make("li");
    line.append(make("time"), make("span"));
    list.append(line);
  }
  newest.forEach((change, place) => {
    const [time, text] = list.children[place].children;
    say(time, clock(change.at));
    say(text, change.text);
  });
}

function stallText([, stage, ratio]) {
  return stage + (typeof ratio === "number" ? ", " + percent(ratio, 1) + " of its time" : "");
}

function showProfile() {
  if (!state.hasNewProfile) return;
  state.hasNewProfile = false;
  show(byId("profile"), state.profile !== null);
  const { findings, stalls } = state.profile || { findings: [], stalls: [] };
  show(byId("no-findings"), findings.length === 0);
  const found = findings.map(([subject, what, next]) => {
    const line = make("li");
    line.append(make("strong", "", subject + ": " + what), make("div", "muted", "next: " + next));
    return line;
  });
  byId("findings").replaceChildren(...found);
  show(byId("t-stalls"), stalls.length > 0);
  byId("stalls").replaceChildren(...stalls.map((stall) => make("li", "", stall[0] + ": " + stallText(stall))));
}

// Areas are hatched, so that they are told apart without their colour.
function drawHatch() {
  const defs = draw("svg", { width: 0, height: 0, "aria-hidden": "true" });
  const hatch = draw("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)" });
  hatch.append(draw("path", { class: "hatch", d: "M2 0V6" }));
  defs.append(hatch);
  document.body.append(defs);
}
