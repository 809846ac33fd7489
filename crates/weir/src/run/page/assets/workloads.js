// SPDX-License-Identifier: Apache-2.0 OR MIT
// The table of workloads. Of a thousand lines the page has as many elements as can be seen.

const COLUMNS = ["name", "bandwidth", "share", "source", "cpu", "throttled", "limit", "allowed", "why"];
const SPARE = 4;
const table = { pool: [], chosen: null, chosenAt: UNKNOWN, height: 28 };

function makeRow() {
  const row = make("div", "row");
  row.setAttribute("role", "row");
  row.cells = {};
  for (const column of COLUMNS) {
    const cell = make("span", column + (["name", "source", "why"].includes(column) ? "" : " v"));
    cell.setAttribute("role", "gridcell");
    row.cells[column] = cell;
    row.append(cell);
  }
  const name = row.cells.name;
  name.append(make("span", "fold"), make("span", "tag"), make("span", "label"));
  [row.fold, row.tag, row.label] = name.children;
  byId("rows").append(row);
  return row;
}

function showWorkloads() {
  const count = [...state.rows.values()].reduce((sum, row) => sum + (isLimited(row) ? 1 : 0), 0);
  const left = state.leftOut > 0 ? ", " + state.leftOut + " more are not shown" : "";
  say(byId("count"), state.rows.size + ", " + count + " limited" + left);
  const grid = byId("grid");
  mark(grid, "aria-rowcount", String(tree.lines.length + 1));
  const high = tree.lines.length * table.height + "px";
  if (byId("rows").style.height !== high) byId("rows").style.height = high;
  follow();
  showVisible();
  showChosen();
}

function placeOfChosen() {
  return table.chosen === null ? UNKNOWN : tree.lines.findIndex((at) => at.path === table.chosen);
}

// Where lines change places the chosen one stays where it is on the screen, while keys go to it.
function follow() {
  const place = placeOfChosen();
  const grid = byId("grid");
  if (place >= 0 && table.chosenAt >= 0 && place !== table.chosenAt && document.activeElement === grid) {
    grid.scrollTop += (place - table.chosenAt) * table.height;
  }
  table.chosenAt = place;
}

function showVisible() {
  const grid = byId("grid");
  const first = Math.max(0, Math.floor(grid.scrollTop / table.height) - SPARE);
  const most = Math.ceil(grid.clientHeight / table.height) + 2 * SPARE;
  const end = Math.min(tree.lines.length, first + most);
  while (table.pool.length < end - first) table.pool.push(makeRow());
  while (table.pool.length > most) table.pool.pop().remove();
  table.pool.forEach((row, place) => {
    const at = tree.lines[first + place];
    show(row, first + place < end);
    if (first + place < end) showRow(row, at, first + place);
  });
  const active = placeOfChosen();
  const isIn = active >= first && active < end;
  if (isIn) mark(grid, "aria-activedescendant", "line-" + active);
  else grid.removeAttribute("aria-activedescendant");
}

function showRow(row, at, place) {
  const top = "translateY(" + place * table.height + "px)";
  if (row.place !== place) {
    row.place = place;
    row.style.transform = top;
    row.id = "line-" + place;
    mark(row, "aria-rowindex", String(place + 2));
  }
  row.path = at.path;
  const isInner = !at.row;
  const isChosen = at.path === table.chosen;
  const className = "row" + (isChosen ? " chosen" : "") + (at.limited > 0 && !isInner ? " limited" : "");
  if (row.className !== className) row.className = className;
  mark(row, "aria-level", String(at.depth + 1));
  mark(row, "aria-selected", String(isChosen));
  if (isInner) mark(row, "aria-expanded", String(isOpen(at)));
  else row.removeAttribute("aria-expanded");
  if (row.depth !== at.depth) {
    row.depth = at.depth;
    row.cells.name.style.paddingLeft = at.depth + "rem";
  }
  say(row.fold, isInner ? (isOpen(at) ? "▾ " : "▸ ") : "");
  say(row.tag, at.row && at.row.tag ? at.row.tag + " " : "");
  say(row.label, at.label.length > 300 ? short(at.label, 300) : at.label);
  const figures = at.figures;
  const cells = row.cells;
  say(cells.bandwidth, rate(figures[BANDWIDTH]));
  say(cells.share, percent(figures[BANDWIDTH], state.allTraffic));
  say(cells.cpu, cpus(figures[CPU]));
  say(cells.throttled, figures[THROTTLED] > 0 ? cpus(figures[THROTTLED]) : NONE);
  say(cells.source, isInner ? "" : sourceOf(at.row));
  say(cells.allowed, isInner ? "" : rate(figures[ALLOWED]));
  say(cells.limit, isInner ? (at.limited > 0 ? at.limited + " of " + at.count : "") : cpus(figures[LIMIT]));
  say(cells.why, isInner ? "" : reasonOf(at.row));
}

function showChosen() {
  const at = tree.lines[placeOfChosen()];
  show(byId("chosen"), at !== undefined);
  if (!at) return;
  const figures = at.figures;
  const pairs = [["bandwidth", rate(figures[BANDWIDTH])], ["CPU", cpus(figures[CPU]) + " CPUs"]];
  if (at.row) {
    say(byId("chosen-name"), (at.row.tag + " " + at.row.name).trim());
    pairs[0][1] += ", " + sourceOf(at.row);
    pairs.push(["limit", isLimited(at.row) ? cpus(figures[LIMIT]) + " CPUs" : "none"]);
    if (figures[SINCE] >= 0) {
      const since = state.base + figures[SINCE];
      pairs.push(["limited since", clock(since) + ", for " + duration(state.now - since)]);
    }
    if (figures[THROTTLED] > 0) pairs.push(["throttled", cpus(figures[THROTTLED]) + " CPUs"]);
    if (figures[ALLOWED] >= 0) pairs.push(["allowed", rate(figures[ALLOWED])]);
    pairs.push(["reason", at.row.why || reasonOf(at.row)]);
    const stall = state.stalls.get(at.row.name);
    if (stall) pairs.push(["stalls most in", stallText(stall)]);
  } else {
    say(byId("chosen-name"), at.path);
    pairs.push(["workloads", at.count + ", " + at.limited + " limited"]);
  }
  facts(byId("chosen-facts"), pairs);
}

function choose(place) {
  const at = tree.lines[Math.max(0, Math.min(tree.lines.length - 1, place))];
  if (!at) return;
  table.chosen = at.path;
  table.chosenAt = tree.lines.indexOf(at);
  const grid = byId("grid");
  const head = grid.querySelector(".head").offsetHeight;
  const top = table.chosenAt * table.height;
  if (top < grid.scrollTop) grid.scrollTop = top;
  const room = grid.clientHeight - head - table.height;
  if (top > grid.scrollTop + room) grid.scrollTop = top - room;
  showVisible();
  showChosen();
}

function fold(at, isFolded) {
  if (at.row) return;
  if (isFolded) tree.folded.add(at.path);
  else tree.folded.delete(at.path);
  showTree(true);
  showWorkloads();
}

// Of the treegrid pattern (ARIA authoring practices).
function gridKey(event) {
  const place = placeOfChosen();
  const at = tree.lines[place];
  const page = Math.max(1, Math.floor(byId("grid").clientHeight / table.height) - 2);
  switch (event.key) {
    case "ArrowDown": choose(place + 1); break;
    case "ArrowUp": choose(place < 0 ? 0 : place - 1); break;
    case "PageDown": choose(place + page); break;
    case "PageUp": choose(place - page); break;
    case "Home": choose(0); break;
    case "End": choose(tree.lines.length - 1); break;
    case "ArrowRight":
      if (at && !at.row && !isOpen(at)) fold(at, false);
      else if (at && !at.row) choose(place + 1);
      break;
    case "ArrowLeft":
      if (at && !at.row && isOpen(at)) fold(at, true);
      else if (at) choose(tree.lines.findLastIndex((line, n) => n < place && line.depth < at.depth));
      break;
    case "Enter":
      if (at && !at.row) fold(at, isOpen(at));
      break;
    default: return;
  }
  event.preventDefault();
}

function gridClick(event) {
  const row = event.target.closest(".row");
  const place = row ? tree.lines.findIndex((line) => line.path === row.path) : UNKNOWN;
  if (place < 0) return;
  const at = tree.lines[place];
  const isMark = event.target === row.fold;
  choose(place);
  if (isMark) fold(at, isOpen(at));
}
