// SPDX-License-Identifier: Apache-2.0 OR MIT
// Devices: figures, and curves of the last minutes.

const LOADS = ["light", "optimal", "moderate", "severe"];
const LEFT = 64, HIGH = 90, MIDDLE = 46, LOW = 22, GAP = 16;
const cards = [];

function makeCard() {
  const card = { box: make("article", "device"), title: make("h3"), big: make("div", "big"), facts: make("dl"),
    words: make("div", "words"), curves: make("div", "curves") };
  card.svg = draw("svg", { role: "img", height: HIGH + MIDDLE + LOW + 3 * GAP + 6 });
  card.words.append(card.title, card.big, card.facts);
  card.curves.append(card.svg);
  card.box.append(card.words, card.curves);
  byId("devices").append(card.box);
  return card;
}

function showDevices() {
  const count = state.devices.length;
  show(byId("no-devices"), count === 0);
  while (cards.length > count) cards.pop().box.remove();
  while (cards.length < count) cards.push(makeCard());
  state.devices.forEach((device, place) => showDevice(cards[place], device, state.names[place] || {}));
}

function showDevice(card, device, named) {
  say(card.title, named.name ? named.id + ", " + named.name : named.id || "");
  const held = device.set_point_kib_per_sec;
  say(card.big, rate(device.bandwidth_kib_per_sec));
  const of = held >= 0 ? percent(device.bandwidth_kib_per_sec, held) + " of " + rate(held) : "none";
  const pairs = [
    ["set-point", of],
    ["reads, writes", rate(device.read_kib_per_sec) + ", " + rate(device.write_kib_per_sec)],
    ["latency", (device.latency || "not measured").replace(/^latency /, "")],
  ];
  if (device.planned_kib_per_sec >= 0) pairs.push(["planned", rate(device.planned_kib_per_sec)]);
  if (device.devload) pairs.push(["DevLoad", device.devload]);
  if (device.unattributed_kib_per_sec > 0) pairs.push(["unattributed", rate(device.unattributed_kib_per_sec)]);
  if (device.migrated_kib_per_sec > 0) pairs.push(["of it page migration", rate(device.migrated_kib_per_sec)]);
  if (named.capacity_kib_per_sec >= 0) pairs.push(["capacity", rate(named.capacity_kib_per_sec)]);
  facts(card.facts, pairs);
}

// Points of a line; a gap where something is not known, or where no tick came for a while.
function path(points, value, x, y) {
  let text = "";
  let before = -Infinity;
  for (const point of points) {
    if (point[value] < 0) {
      before = -Infinity;
      continue;
    }
    const isNear = point[0] - before <= 15000;
    text += (isNear ? "L" : "M") + x(point[0]).toFixed(1) + " " + y(point[value]).toFixed(1);
    before = point[0];
  }
  return text;
}

function most(points, value) {
  return points.reduce((most, point) => Math.max(most, point[value]), 0);
}

// One panel: its frame, what its top is worth, and its lines.
function panel(svg, top, height, width, label, name) {
  const bottom = top + height;
  svg.push(draw("path", { class: "axis", d: `M${LEFT} ${top}V${bottom}H${width}M${LEFT} ${top}H${width}` }));
  if (label) svg.push(draw("text", { x: LEFT - 6, y: top + 9, "text-anchor": "end" }, label));
  svg.push(draw("text", { x: LEFT - 6, y: bottom, "text-anchor": "end" }, name));
}

function drawCurves(card, points, capacity) {
  const width = Math.max(200, card.curves.clientWidth);
  const from = state.now - state.window;
  const x = (at) => LEFT + ((width - LEFT) * (at - from)) / state.window;
  const shown = points.filter((point) => point[0] >= from);
  const parts = [];
  const scale = (top, height, most) => (value) => top + height - (height * value) / most;
  let top = 4;
  const rates = Math.max(most(shown, 1), most(shown, 2) * 1.25, 1);
  panel(parts, top, HIGH, width, rate(Math.round(rates)), "bandwidth");
  const y = scale(top, HIGH, rates);
  parts.push(draw("path", { class: "set-point", d: path(shown, 2, x, y) }));
  if (capacity > 0 && capacity <= rates) {
    parts.push(draw("path", { class: "capacity", d: `M${LEFT} ${y(capacity)}H${width}` }));
  }
  parts.push(draw("path", { class: "bandwidth", d: path(shown, 1, x, y) }));
  top += HIGH + GAP;
  const latency = most(shown, 3);
  panel(parts, top, MIDDLE, width, latency > 0 ? nanoseconds(latency) : "", "latency");
  if (latency > 0) {
    parts.push(draw("path", { class: "latency", d: path(shown, 3, x, scale(top, MIDDLE, latency)) }));
  }
  top += MIDDLE + GAP;
  if (shown.some((point) => point[4] >= 0)) {
    panel(parts, top, LOW, width, "", "DevLoad");
    parts.push(draw("path", { class: "load", d: loads(shown, x, top) }));
    top += LOW + GAP;
  }
  parts.push(draw("text", { x: LEFT, y: top }, clock(from)));
  parts.push(draw("text", { x: width, y: top, "text-anchor": "end" }, clock(state.now)));
  card.svg.setAttribute("viewBox", `0 0 ${width} ${top + 4}`);
  card.svg.setAttribute("height", top + 4);
  card.svg.replaceChildren(...parts);
}

// A step for each point: a quarter of the height for light, all of it for severe.
function loads(points, x, top) {
  let text = "";
  points.forEach((point, place) => {
    if (point[4] < 0) return;
    const next = points[place + 1];
    const end = Math.min(next ? next[0] : state.now, point[0] + 2000);
    const height = (LOW * (point[4] + 1)) / LOADS.length;
    text += `M${x(point[0]).toFixed(1)} ${top + LOW}v${-height}H${x(end).toFixed(1)}v${height}z`;
  });
  return text;
}

function showCurves() {
  state.devices.forEach((device, place) => {
    const named = state.names[place] || {};
    drawCurves(cards[place], state.points[place] || [], named.capacity_kib_per_sec);
    const said = "Bandwidth (line), set-point (dashes), latency and DevLoad of the last minutes. Now: " +
      rate(device.bandwidth_kib_per_sec) + " of " + rate(device.set_point_kib_per_sec) + ", " +
      (device.latency || "no latency") + (device.devload ? ", DevLoad " + device.devload : "");
    mark(cards[place].svg, "aria-label", said);
  });
}
