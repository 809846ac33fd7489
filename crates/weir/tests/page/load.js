// SPDX-License-Identifier: Apache-2.0 OR MIT
// An hour of a page with 1000 workloads at ten events a second, faster than real time. Prints what the page's own
// script took for each event, and its memory on the way. Usage: node load.js URL [EVENTS] [WORKLOADS]
"use strict";

const { withBrowser, open } = require("./browser.js");
const { madeSource } = require("./made.js");

const [url, events = "36000", workloads = "1000"] = process.argv.slice(2);
const PARTS = 6;

// Frames are drawn when this says so, and not 60 times a second.
function ownFrames() {
  const real = window.requestAnimationFrame.bind(window);
  const waiting = [];
  window.requestAnimationFrame = (draw) => waiting.push(draw);
  const clock = performance.now.bind(performance);
  window.frames_ = { draw: () => waiting.splice(0).forEach((draw) => draw(performance.now())), real, clock };
  // To the page a tenth of a second has gone by at each event.
  performance.now = () => window.made.count * 100;
}

// Runs in the page: so many events, each drawn and laid out before the next.
async function play(count) {
  const { clock } = window.frames_;
  const shown = () => new Promise((done) => window.frames_.real(done));
  const times = [];
  let takes = 0, draws = 0, layouts = 0, bytes = 0;
  for (let n = 0; n < count; n++) {
    const text = JSON.stringify(window.made.tick());
    bytes += text.length;
    const begin = clock();
    window.made.emit("tick", text);
    const taken = clock();
    window.frames_.draw();
    const drawn = clock();
    document.body.getBoundingClientRect();
    const end = clock();
    takes += taken - begin;
    draws += drawn - taken;
    layouts += end - drawn;
    times.push(end - begin);
    if (n % 100 === 0) await shown();
  }
  window.gc();
  await shown();
  window.gc();
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.floor(part * (times.length - 1))];
  return { events: count, event_bytes: bytes / count, take_ms: takes / count, draw_ms: draws / count,
    layout_ms: layouts / count, p99_ms: at(0.99), worst_ms: at(1),
    heap_bytes: performance.memory.usedJSHeapSize, elements: document.getElementsByTagName("*").length };
}

withBrowser(async (browser) => {
  const prepare = async (page) => {
    await page.addInitScript(madeSource);
    await page.addInitScript(ownFrames);
  };
  const { page, problems } = await open(browser, url, { width: 1280, height: 900 }, prepare);
  await page.evaluate((count) => window.made.emit("full", window.made.full(count)), Number(workloads));
  const parts = [];
  for (let part = 0; part < PARTS; part++) {
    const found = await page.evaluate(play, Math.round(Number(events) / PARTS));
    parts.push(found);
    process.stderr.write(JSON.stringify(found) + "\n");
  }
  console.log(JSON.stringify({ browser: browser.version(), workloads: Number(workloads), problems, parts }, null, 1));
  if (problems.length > 0) process.exitCode = 1;
}).catch((error) => {
  console.error(error);
  process.exitCode = 2;
});
