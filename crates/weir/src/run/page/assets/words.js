// SPDX-License-Identifier: Apache-2.0 OR MIT
// Figures in words, and parts of the page. Names come from every user of the machine: they get into the page as
// text and in no other way.
"use strict";

const UNKNOWN = -1;
const NONE = "–";

function threeDigits(value) {
  return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

// As weir prints it elsewhere: three digits and a binary unit.
function rate(kib) {
  if (kib === undefined || kib < 0) return NONE;
  let value = kib;
  for (const unit of ["KiB/s", "MiB/s", "GiB/s", "TiB/s"]) {
    if (value < 1023.5) return (kib < 1000 ? String(kib) : threeDigits(value)) + " " + unit;
    value /= 1024;
  }
  return threeDigits(value) + " PiB/s";
}

function cpus(milli) {
  return milli === undefined || milli < 0 ? NONE : threeDigits(milli / 1000);
}

function percent(part, whole) {
  return part < 0 || !(whole > 0) ? NONE : Math.round((100 * part) / whole) + " %";
}

function nanoseconds(ns) {
  if (ns < 0) return NONE;
  return ns < 10000 ? ns + " ns" : threeDigits(ns / 1000) + " µs";
}

function clock(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? NONE : date.toLocaleTimeString([], { hour12: false });
}

function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return seconds + " s";
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? minutes + " min" : Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
}

// The end of a path says more than its middle.
function short(name, length) {
  if (name.length <= length) return name;
  const head = Math.floor(length / 4);
  return name.slice(0, head) + "…" + name.slice(name.length - (length - head - 1));
}

function byId(id) {
  return document.getElementById(id);
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name of Object.keys(attributes)) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Writes only what is other than before: the browser lays out no more than that.
function say(element, text) {
  if (element.said !== text) {
    element.said = text;
    element.textContent = text;
  }
}

function mark(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function show(element, is) {
  if (element.hidden === is) element.hidden = !is;
}

// Terms with what is said of them; elements are used again.
function facts(list, pairs) {
  while (list.children.length > 2 * pairs.length) list.lastElementChild.remove();
  while (list.children.length < 2 * pairs.length) list.append(make("dt"), make("dd"));
  pairs.forEach(([term, what], place) => {
    say(list.children[2 * place], term);
    say(list.children[2 * place + 1], what);
  });
}
