// SPDX-License-Identifier: Apache-2.0 OR MIT
// Chromium without a screen, and what is wrong on a page: errors in its console, requests of its own.
"use strict";

const { chromium } = require("playwright-core");

const CHROMIUM = process.env.WEIR_CHROMIUM || "/usr/bin/chromium";

async function withBrowser(then) {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    // Its sandbox needs what containers and root do not have. It opens no page but weir's.
    args: ["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc", "--enable-precise-memory-info"],
  });
  try {
    return await then(browser);
  } finally {
    await browser.close();
  }
}

// A page of this size and colour scheme; what it complains of comes into `problems`.
async function open(browser, url, options, prepare) {
  const { width, height, scheme } = options;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme || "light",
    timezoneId: "UTC", locale: "en-GB" });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  const origin = new URL(url).origin;
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(origin) && !to.startsWith("data:")) problems.push(`request: ${to}`);
  });
  if (prepare) await prepare(page);
  await page.goto(url, { waitUntil: "load" });
  return { page, context, problems };
}

function check(is, what) {
  if (!is) throw new Error(`not so: ${what}`);
}

module.exports = { withBrowser, open, check };
