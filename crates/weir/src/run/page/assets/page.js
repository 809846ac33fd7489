// SPDX-License-Identifier: Apache-2.0 OR MIT
// The stream of events, and when what is drawn: figures of devices with each event, curves when there are new
// points, figures of workloads four times a second (nothing faster can be read), order and spans once a second.

const MOVE_MS = 1000;
const TABLE_MS = 250;
const AGAIN_MS = 3000;
const page = { stream: null, isPaused: false, isDue: false, movedAt: -Infinity, tableAt: -Infinity, again: 0 };

function draws() {
  page.isDue = false;
  if (state.devices === undefined || state.now === 0) return;
  const at = performance.now();
  const mayMove = at - page.movedAt >= MOVE_MS;
  if (mayMove) page.movedAt = at;
  showHead();
  showDevices();
  if (state.hasNewPoints) {
    state.hasNewPoints = false;
    showCurves();
  }
  if (mayMove) showLanes();
  if (mayMove || at - page.tableAt >= TABLE_MS) {
    page.tableAt = at;
    showTree(mayMove);
    showWorkloads();
  }
  showChanges();
  showProfile();
}

function drawSoon() {
  if (!page.isDue) {
    page.isDue = true;
    requestAnimationFrame(draws);
  }
}

function showHead() {
  const head = state.head;
  const doing = head.limiting ? "limiting, policy " + head.policy : "observing, limits nothing";
  say(byId("mode"), (head.is_recorded ? "recorded: " : "") + doing + " · " + clock(state.now));
  const notes = (head.skipped || []).slice();
  const more = head.skipped_count - notes.length;
  if (more > 0) notes.push(more + " more could not be read");
  if (head.left_out_devices > 0) notes.push(head.left_out_devices + " more devices are not shown");
  show(byId("notes"), notes.length > 0);
  say(byId("notes"), notes.join("; "));
  const own = typeof head.own_cpus === "number" ? "; weir itself uses " + threeDigits(head.own_cpus) + " CPUs" : "";
  say(byId("foot"), "weir " + head.version + ", a tick each " + head.interval_ms +
    " ms; figures of workloads are means over about a second" + own);
}

function linked(text, isLost) {
  say(byId("link"), text);
  byId("link").className = isLost ? "lost" : "";
}

function hear(event, isFull) {
  take(JSON.parse(event.data), isFull);
  if (isFull) {
    tree.root = null;
    page.movedAt = -Infinity;
    linked("connected", false);
  }
  drawSoon();
}

function connect() {
  clearTimeout(page.again);
  if (page.stream || page.isPaused || document.hidden) return;
  const stream = new EventSource("events");
  page.stream = stream;
  stream.addEventListener("full", (event) => hear(event, true));
  stream.addEventListener("tick", (event) => hear(event, false));
  stream.addEventListener("error", () => {
    const since = state.now ? ": figures are of " + clock(state.now) : "";
    linked("no connection, trying again" + since, true);
    // A browser tries again by itself unless the server has answered with an error.
    if (stream.readyState === EventSource.CLOSED) {
      page.stream = null;
      page.again = setTimeout(connect, AGAIN_MS);
    }
  });
}

function disconnect(text) {
  clearTimeout(page.again);
  if (page.stream) page.stream.close();
  page.stream = null;
  linked(text, false);
}

function pause() {
  page.isPaused = !page.isPaused;
  const button = byId("pause");
  mark(button, "aria-pressed", String(page.isPaused));
  say(button, page.isPaused ? "Go on" : "Pause");
  if (page.isPaused) disconnect("paused");
  else connect();
}

function measureRow() {
  table.height = byId("grid").querySelector(".head").offsetHeight || table.height;
  for (const row of table.pool) row.place = UNKNOWN;
}

function findsAgain() {
  tree.find = byId("filter").value.trim().toLowerCase();
  tree.order = byId("order").value;
  tree.onlyLimited = byId("only").checked;
  if (!tree.root) return;
  showTree(true);
  byId("grid").scrollTop = 0;
  showWorkloads();
}

function pageKey(event) {
  const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape" && event.target === byId("filter")) {
    byId("filter").value = "";
    findsAgain();
    byId("grid").focus();
  } else if (isTyping || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  } else if (event.key === "/") {
    byId("filter").focus();
  } else if (event.key === "p") {
    pause();
  } else {
    return;
  }
  event.preventDefault();
}

function begin() {
  reset();
  drawHatch();
  measureRow();
  byId("grid").addEventListener("keydown", gridKey);
  byId("grid").addEventListener("click", gridClick);
  byId("grid").addEventListener("scroll", () => tree.root && showVisible(), { passive: true });
  byId("grid").addEventListener("focus", () => table.chosen === null && choose(0));
  byId("pause").addEventListener("click", pause);
  byId("tools").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["filter", "order", "only"]) byId(id).addEventListener("input", findsAgain);
  document.addEventListener("keydown", pageKey);
  // A page that is not seen needs nothing. What was meanwhile comes with the first event.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && page.stream) disconnect("not seen");
    else connect();
  });
  addEventListener("resize", () => {
    measureRow();
    state.hasNewPoints = true;
    drawSoon();
  });
  connect();
}

begin();
