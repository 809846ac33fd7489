// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the server has said so far. An event "full" begins anew, an event "tick" says what changed.

// Places in a workload's figures, in the order of the server (figures.rs).
const BANDWIDTH = 0, SOURCE = 1, CPU = 2, THROTTLED = 3, LIMIT = 4, ALLOWED = 5, SINCE = 6, REASON = 7;
const FIGURES = 8;
const POINT = 6;
const SPANS_MAX = 2000;
const CHANGES_MAX = 100;

const state = {};

function reset() {
  Object.assign(state, {
    now: 0, base: 0, window: 300000, head: {}, names: [], devices: [], points: [], spans: [], changes: [],
    rows: new Map(), words: [], leftOut: 0, profile: null, stalls: new Map(), allTraffic: 0,
    hasNewRows: true, hasNewPoints: true, hasNewChanges: true, hasNewProfile: true,
  });
}

// Lists of numbers and texts, so many in a group.
function groups(list, size, each) {
  for (let at = 0; at + size <= (list ? list.length : 0); at += size) each(list, at);
}

function takeRows(said) {
  groups(said.gone, 1, (list, at) => state.rows.delete(list[at]));
  groups(said.rows, 3, (list, at) => {
    const figures = new Array(FIGURES).fill(UNKNOWN);
    state.rows.set(list[at], { slot: list[at], name: list[at + 1], tag: list[at + 2], figures, why: "" });
  });
  if (said.gone || said.rows) state.hasNewRows = true;
  takeFigures(said.f || []);
  groups(said.why, 2, (list, at) => {
    const row = state.rows.get(list[at]);
    if (row) row.why = list[at + 1];
  });
}

// Number of a row, a bit for each figure that follows, and those figures.
function takeFigures(list) {
  for (let at = 0; at + 1 < list.length; ) {
    const row = state.rows.get(list[at]);
    const which = list[at + 1];
    at += 2;
    for (let place = 0; place < FIGURES; place++) {
      if (!((which >> place) & 1)) continue;
      if (row) row.figures[place] = list[at];
      at += 1;
    }
  }
}

function takeHistory(said) {
  const oldest = state.now - state.window;
  groups(said.points, POINT, (list, at) => {
    const device = (state.points[list[at]] ||= []);
    device.push(list.slice(at + 1, at + POINT));
    state.hasNewPoints = true;
  });
  for (const device of state.points) {
    let old = 0;
    while (device && old < device.length && device[old][0] < oldest) old++;
    // Not one by one: that would move the list each time.
    if (old > 60) device.splice(0, old);
  }
  if (said.spans) {
    state.spans = state.spans.concat(said.spans).filter((span) => span[2] >= oldest).slice(-SPANS_MAX);
  }
  if (said.changes) {
    state.changes = state.changes.concat(said.changes).slice(-CHANGES_MAX);
    state.hasNewChanges = true;
  }
}

function take(said, isFull) {
  if (isFull) reset();
  state.now = said.now;
  for (const [key, name] of [["base", "base"], ["head", "head"], ["names", "names"], ["words", "words"],
    ["devices", "devices"], ["left_out", "leftOut"]]) {
    if (said[key] !== undefined) state[name] = said[key];
  }
  if (said.head) state.window = said.head.window_ms;
  if (said.profile !== undefined) {
    state.profile = said.profile;
    state.stalls = new Map(said.profile ? said.profile.stalls.map((row) => [row[0], row]) : []);
    state.hasNewProfile = true;
  }
  takeRows(said);
  takeHistory(said);
  state.allTraffic = 0;
  for (const device of state.devices) state.allTraffic += Math.max(0, device.bandwidth_kib_per_sec);
}

function isLimited(row) {
  return row.figures[LIMIT] >= 0;
}

function sourceOf(row) {
  return state.words[row.figures[SOURCE]] || NONE;
}

function reasonOf(row) {
  return state.words[row.figures[REASON]] || NONE;
}
