// SPDX-License-Identifier: Apache-2.0 OR MIT
// Looks at a live page as readers do: wide and narrow, light and dark, with names that want to be more than
// text, and by keyboard alone. Screenshots go to OUT. Usage: node check.js URL OUT [HOSTILE-NAME …]
"use strict";

const fs = require("fs");
const path = require("path");
const { withBrowser, open, check } = require("./browser.js");

const [url, out, ...hostile] = process.argv.slice(2);
// Against a wait without end; no verdict is by time.
const HANG_MS = 300000;
const SIZES = [[1280, 900], [400, 800]];

const HAS_ROWS = () => document.querySelectorAll("#rows .row:not([hidden])").length > 0;

// Contrast of texts with what lies behind them (WCAG 2.2, 1.4.3). Runs in the page.
function contrasts() {
  const channels = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const query of ["h1", ".muted", "dt", "dd", ".row.head span", "#rows .row .label", "#rows .why", "button"]) {
    const element = document.querySelector(query);
    if (!element) continue;
    const two = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    found[query] = (two[0] + 0.05) / (two[1] + 0.05);
  }
  return found;
}

async function look(browser, [width, height], scheme) {
  const { page, context, problems } = await open(browser, url, { width, height, scheme });
  await page.waitForFunction(HAS_ROWS, null, { timeout: HANG_MS });
  // Curves have points after some steps of half a second.
  await page.waitForFunction(() => (document.querySelector("svg .bandwidth")?.getAttribute("d") || "").includes("L"),
    null, { timeout: HANG_MS });
  const place = `${width} pixels, ${scheme}`;
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= width, `${place}: the page is ${wide} pixels wide`);
  for (const [query, ratio] of Object.entries(await page.evaluate(contrasts))) {
    check(ratio >= 4.5, `${place}: contrast of ${query} is ${ratio.toFixed(2)}, less than 4.5`);
  }
  const limited = await page.evaluate(() => [...document.querySelectorAll("#rows .row.limited:not([hidden])")]
    .map((row) => row.querySelector(".limit").textContent));
  check(limited.every((text) => /\d/.test(text)), `${place}: a limited workload has no limit: ${limited}`);
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.screenshot({ path: path.join(out, `page-${width}-${scheme}.png`), fullPage: true });
  check(problems.length === 0, `${place}: ${problems.join("; ")}`);
  await context.close();
  return { limited: limited.length, background };
}

// Names are text, whatever is in them.
async function hostileNames(browser) {
  const { page, context, problems } = await open(browser, url, { width: 1280, height: 900 });
  await page.waitForFunction(HAS_ROWS, null, { timeout: HANG_MS });
  for (const name of hostile) {
    await page.fill("#filter", name.slice(0, 60));
    await page.waitForFunction(() => document.querySelectorAll("#rows .row:not([hidden]) .label").length > 0, null,
      { timeout: HANG_MS });
    await page.focus("#grid");
    await page.keyboard.press("End");
    const shown = await page.textContent("#chosen-name");
    check(shown === name, `a name is shown as ${shown}, not as ${name}`);
  }
  const made = await page.evaluate(() => ({ images: document.images.length, frames: window.frames.length,
    scripts: document.scripts.length, links: document.querySelectorAll("a").length, hacked: window.hacked === true,
    title: document.title, text: document.body.innerText }));
  const { images, frames, scripts, links, hacked, title } = made;
  check(images === 0 && frames === 0 && scripts === 1 && links === 1 && !hacked && title === "weir",
    `a name made something: ${JSON.stringify({ images, frames, scripts, links, hacked, title })}`);
  check(!/[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u2066-\u2069]/.test(made.text), "control characters are shown");
  const refused = await page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return false;
    } catch (error) {
      return error.name === "TypeError";
    }
  });
  check(refused, "the policy refuses HTML made of text");
  const left = problems.filter((text) => !text.includes("TrustedHTML"));
  check(left.length === 0, left.join("; "));
  await context.close();
}

async function keyboard(browser) {
  const { page, context, problems } = await open(browser, url, { width: 1280, height: 900 });
  await page.waitForFunction(HAS_ROWS, null, { timeout: HANG_MS });
  const focus = () => page.evaluate(() => document.activeElement.id);
  const lines = () => page.evaluate(() => Number(document.getElementById("grid").getAttribute("aria-rowcount")));
  const chosen = (name) => page.evaluate((name) => {
    const id = document.getElementById("grid").getAttribute("aria-activedescendant");
    return id && document.getElementById(id).getAttribute(name);
  }, name);
  const visited = [];
  for (let n = 0; n < 12 && (await focus()) !== "grid"; n++) {
    await page.keyboard.press("Tab");
    visited.push(await focus());
  }
  check((await focus()) === "grid", `Tab leads to the workloads: ${visited}`);
  for (const id of ["pause", "filter", "order", "only"]) check(visited.includes(id), `Tab leads to ${id}: ${visited}`);
  await page.keyboard.press("Home");
  check((await chosen("aria-selected")) === "true", "Home chooses a workload");
  check((await chosen("aria-expanded")) === "true", "the first line is a branch, and open");
  const all = await lines();
  await page.keyboard.press("ArrowLeft");
  check((await chosen("aria-expanded")) === "false", "← folds it");
  check((await lines()) < all, "what is folded has no lines");
  await page.keyboard.press("ArrowRight");
  check((await chosen("aria-expanded")) === "true" && (await lines()) === all, "→ opens it");
  await page.keyboard.press("ArrowDown");
  check(await page.isVisible("#chosen"), "the chosen workload is described");
  await page.keyboard.press("/");
  check((await focus()) === "filter", "/ leads to the filter");
  await page.keyboard.type("no such workload");
  check((await lines()) === 1, "nothing is found");
  await page.keyboard.press("Escape");
  check((await focus()) === "grid" && (await lines()) === all, "Escape leaves the filter");
  await page.keyboard.press("p");
  check((await page.getAttribute("#pause", "aria-pressed")) === "true", "p pauses");
  check((await page.textContent("#link")) === "paused", "it is said that it is paused");
  await page.keyboard.press("p");
  await page.waitForFunction(() => document.getElementById("link").textContent === "connected", null, { timeout: HANG_MS });
  check(problems.length === 0, problems.join("; "));
  await context.close();
}

withBrowser(async (browser) => {
  fs.mkdirSync(out, { recursive: true });
  const backgrounds = new Set();
  let limited = 0;
  for (const size of SIZES) {
    for (const scheme of ["light", "dark"]) {
      const seen = await look(browser, size, scheme);
      backgrounds.add(seen.background);
      limited += seen.limited;
    }
  }
  check(backgrounds.size === 2, `light and dark are two colours: ${[...backgrounds]}`);
  check(limited > 0, "limited workloads are shown");
  await hostileNames(browser);
  await keyboard(browser);
  console.log(JSON.stringify({ browser: browser.version(), limited }));
}).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
