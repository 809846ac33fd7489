// SPDX-License-Identifier: Apache-2.0 OR MIT
// A source of events that is made: the page's EventSource is taken away before its script runs, and events come
// as fast as the page takes them. Runs in the page.
"use strict";

function madeSource() {
  const made = { listeners: {}, count: 0, now: 1764270000000 };
  window.made = made;
  window.EventSource = class {
    constructor() {
      this.readyState = 1;
      made.source = this;
    }
    addEventListener(kind, listener) {
      made.listeners[kind] = listener;
    }
    close() {
      this.readyState = 2;
    }
  };
  window.EventSource.CLOSED = 2;

  // The same numbers each time.
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const three = (value) => Number(value.toPrecision(3));
  const words = ["counted", "estimate", "limited", "headroom", "below share", "releasing"];

  function device(at) {
    const rate = three(3.2e6 + 6e5 * Math.sin(at / 40000) + 2e5 * random());
    return { bandwidth_kib_per_sec: rate, read_kib_per_sec: three(rate * 0.7), write_kib_per_sec: three(rate * 0.3),
      unattributed_kib_per_sec: 0, set_point_kib_per_sec: 3.5e6, planned_kib_per_sec: -1, latency_ns: 412,
      migrated_kib_per_sec: -1, latency: "latency 412 ns by probe", devload: "moderate" };
  }

  function figures(slot) {
    const isLimited = slot % 7 === 0;
    return [slot, 255, three(900000 * random() / (1 + (slot % 50))), isLimited ? 0 : 1, three(1000 * random()),
      isLimited ? three(300 * random()) : 0, isLimited ? three(100 + 400 * random()) : -1, three(4000 * random()),
      isLimited ? 1000 * (slot % 100) : -1, isLimited ? 2 : 3 + (slot % 3)];
  }

  const name = (slot) => `/machine.slice/part-${slot % 20}/group-${slot % 100}/workload-${slot}.service`;

  // As it is after hours: five minutes of points, and as many changes as are kept.
  made.full = (workloads) => {
    const slots = [...Array(workloads).keys()];
    const ago = (count, step, each) => [...Array(count).keys()].map((n) => each(made.now - step * (count - n)));
    made.workloads = workloads;
    return { now: made.now, base: made.now - 200000, head: { version: "made", is_recorded: false, limiting: true,
      policy: "max-min", interval_ms: 50, own_cpus: 0.012, skipped: [], skipped_count: 0, left_out_devices: 0,
      window_ms: 300000 }, names: [{ id: "cxl0", name: "made", capacity_kib_per_sec: 5e6 }],
    devices: [device(made.now)], words, rows: slots.flatMap((slot) => [slot, name(slot), ""]),
    f: slots.flatMap(figures), why: slots.flatMap((slot) => [slot, "the device has headroom"]), left_out: 0,
    profile: null,
    points: ago(600, 500, (at) => [0, at, device(at).bandwidth_kib_per_sec, 3.5e6, 412, 2]).flat(),
    changes: ago(100, 3000, (at) => ({ at, what: "limited", text: `/extra: limited to 0.31 CPU at ${at}` })) };
  };

  // A tenth of a second on: all figures are others; now and then a workload comes, goes, is limited.
  made.tick = () => {
    made.now += 100;
    made.count += 1;
    const f = [];
    for (let slot = 0; slot < made.workloads; slot++) f.push(...figures(slot));
    const said = { now: made.now, devices: [device(made.now)], f, left_out: 0 };
    if (made.count % 5 === 0) said.points = [0, made.now - 500, device(made.now).bandwidth_kib_per_sec, 3.5e6, 412, 2];
    if (made.count % 50 === 0) {
      const slot = made.workloads + (made.count / 50) % 3;
      if (made.extra !== undefined) said.gone = [made.extra];
      made.extra = slot === made.extra ? slot + 10 : slot;
      said.rows = [made.extra, `/extra/${made.count}`, ""];
      said.spans = [[`/extra/${made.count - 50}`, made.now - 4000, made.now - 1000]];
      said.changes = [{ at: made.now, what: "limited", text: `/extra/${made.count}: limited to 0.31 CPU` }];
    }
    said.why = [made.count % made.workloads, `limited by max-min: it would demand ${made.count} MiB/s`];
    return said;
  };

  made.emit = (kind, said) => made.listeners[kind]({ data: typeof said === "string" ? said : JSON.stringify(said) });
}

module.exports = { madeSource };
