#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a fleet costs its servers: many `weir replay --metrics` are the hosts, and a Prometheus and a
VictoriaMetrics scrape all of them. Writes docs/evidence/fleet.md. `make fleet` runs it."""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HZ = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SCENARIOS = ["thesis-limit", "two-devices"]
SCRAPE_SECS = 15
FIRST_PORT = 30000
PROMETHEUS = "127.0.0.1:29090"
VICTORIA = "127.0.0.1:28428"
DAY_SCRAPES = 86400 // SCRAPE_SECS


def get(address, path, **query):
    url = f"http://{address}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def value(address, query):
    found = json.loads(get(address, "/api/v1/query", query=query))["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def cpu_secs(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def folder_bytes(folder):
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())


def record(weir, scenario, secs, folder):
    """A recording with a tick a second."""
    lines = subprocess.run([weir, "sim", scenario, "--print"], check=True, capture_output=True, text=True)
    changed = []
    for line in lines.stdout.splitlines():
        key = line.split(" = ")[0]
        if key == "settle_sec":
            line = "settle_sec = 0.0\ninterval_ms = 1000"
        elif key == "measure_sec":
            line = f"measure_sec = {secs}.0"
        changed.append(line)
    made = folder / f"{scenario}.toml"
    made.write_text("\n".join(changed) + "\n")
    recording = folder / f"{scenario}.weir"
    command = [weir, "sim", made, "--backend", "cpu-max", "--record", recording]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return recording


def start_hosts(args, recordings):
    hosts = []
    for number in range(args.hosts):
        file = recordings[number % len(recordings)]
        command = [args.weir, "replay", file, f"--metrics=127.0.0.1:{FIRST_PORT + number}"]
        hosts.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        # Their ticks are spread over the second.
        time.sleep(0.02)
    return hosts


def start_servers(args, folder):
    targets = "".join(
        f"    - targets: ['127.0.0.1:{FIRST_PORT + n}']\n      labels: {{instance: 'host-{n:03}'}}\n"
        for n in range(args.hosts)
    )
    scrape = f"scrape_configs:\n- job_name: weir\n  scrape_interval: {SCRAPE_SECS}s\n"
    scrape += f"  static_configs:\n{targets}"
    (folder / "scrape.yml").write_text(scrape)
    rules = ROOT / "packaging/monitoring"
    config = f"rule_files: ['{rules}/recording.yml', '{rules}/alerts.yml']\n{scrape}"
    (folder / "prometheus.yml").write_text(config)
    log = (folder / "log").open("w")
    prometheus = subprocess.Popen(
        [
            args.servers / "prometheus/usr/bin/prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/prometheus",
            f"--web.listen-address={PROMETHEUS}",
            "--web.enable-admin-api",
        ],
        stdout=log,
        stderr=log,
    )
    victoria = subprocess.Popen(
        [
            args.servers / "victoria-metrics/usr/bin/victoria-metrics",
            f"-storageDataPath={folder}/victoria",
            f"-httpListenAddr={VICTORIA}",
            f"-promscrape.config={folder}/scrape.yml",
            "-storage.minFreeDiskSpaceBytes=1",
        ],
        stdout=log,
        stderr=log,
    )
    return prometheus, victoria


def slowest_query(address):
    """The slowest of the fleet's dashboard, over an hour."""
    board = json.loads((ROOT / "packaging/monitoring/fleet.json").read_text())
    now = time.time()
    slowest, count = 0.0, 0
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$instance", ".*").replace("$job", "weir")
            query = query.replace("$__rate_interval", "1m")
            begun = time.monotonic()
            get(address, "/api/v1/query_range", query=query, start=now - 3600, end=now, step=15)
            slowest = max(slowest, time.monotonic() - begun)
            count += 1
    return slowest, count


def prometheus_sizes(folder):
    """Bytes, samples and series of the block that a snapshot makes of all that there is."""
    request = urllib.request.Request(f"http://{PROMETHEUS}/api/v1/admin/tsdb/snapshot", method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        name = json.load(answer)["data"]["name"]
    snapshot = folder / "prometheus/snapshots" / name
    stats = [json.loads(meta.read_text())["stats"] for meta in snapshot.glob("*/meta.json")]
    samples, series = (sum(each[key] for each in stats) for key in ("numSamples", "numSeries"))
    chunks = sum(folder_bytes(chunks) for chunks in snapshot.glob("*/chunks"))
    index = sum(file.stat().st_size for file in snapshot.glob("*/index"))
    return chunks, index, samples, series


def victoria_sizes():
    """Bytes and samples of its tables."""
    get(VICTORIA, "/internal/force_flush")
    time.sleep(2)
    rows, size = 0.0, 0.0
    for line in get(VICTORIA, "/metrics").splitlines():
        is_data = "storage/" in line
        if line.startswith("vm_rows{") and is_data:
            rows += float(line.split()[-1])
        if line.startswith("vm_data_size_bytes{") and is_data:
            size += float(line.split()[-1])
    return size, rows


def measured(args, folder):
    recordings = [record(args.weir, name, args.minutes * 60 + 300, folder) for name in SCENARIOS]
    hosts = start_hosts(args, recordings)
    servers = start_servers(args, folder)
    try:
        time.sleep(args.settle_secs)
        before = [cpu_secs(p.pid) for p in servers]
        hosts_before = sum(cpu_secs(p.pid) for p in hosts)
        begun = time.monotonic()
        time.sleep(args.minutes * 60)
        wall = time.monotonic() - begun
        cpus = [(cpu_secs(p.pid) - b) / wall for p, b in zip(servers, before)]
        hosts_cpus = (sum(cpu_secs(p.pid) for p in hosts) - hosts_before) / wall
        memory = [resident_bytes(p.pid) for p in servers]
        found = {
            "up": value(PROMETHEUS, 'sum(up{job="weir"})'),
            "least": value(PROMETHEUS, 'min(scrape_samples_scraped{job="weir"})'),
            "most": value(PROMETHEUS, 'max(scrape_samples_scraped{job="weir"})'),
            "scrape": value(PROMETHEUS, 'quantile(0.99, scrape_duration_seconds{job="weir"})'),
            "series": value(PROMETHEUS, "prometheus_tsdb_head_series"),
            "rules": value(PROMETHEUS, "sum(prometheus_rule_group_last_duration_seconds)"),
            "victoria_up": value(VICTORIA, 'sum(up{job="weir"})'),
            "queries": [slowest_query(PROMETHEUS), slowest_query(VICTORIA)],
        }
        # Prometheus does not scrape itself: these figures are on its own page.
        for line in get(PROMETHEUS, "/metrics").splitlines():
            if line.startswith("prometheus_tsdb_head_series "):
                found["series"] = float(line.split()[-1])
            if line.startswith("prometheus_rule_group_last_duration_seconds{"):
                found["rules"] += float(line.split()[-1])
        sizes = prometheus_sizes(folder), victoria_sizes()
        return found, cpus, hosts_cpus, memory, sizes
    finally:
        for process in [*servers, *hosts]:
            process.kill()
            process.wait()


def page(args, found, cpus, hosts_cpus, memory, sizes):
    (chunks, index, samples, series), (size, rows) = sizes
    per_host = (found["least"] + found["most"]) / 2
    a_day = per_host * DAY_SCRAPES
    prometheus_day, victoria_day = chunks / samples * a_day / 1e6, size / rows * a_day / 1e6
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    return f"""# A fleet

What {args.hosts} hosts cost a Prometheus and a VictoriaMetrics that scrape them each {SCRAPE_SECS} s. The
hosts are `weir replay --metrics` of simulated runs (`{SCENARIOS[0]}`, `{SCENARIOS[1]}`; a tick a second),
all on one machine of {os.cpu_count()} CPUs. Other programs ran there too: CPU figures are CPU time, and
latencies are what that machine gave.

`packaging/monitoring/measure-fleet.py --minutes {args.minutes} \
--settle-secs {args.settle_secs}` (`make fleet`)
at {commit}, {time.strftime('%F', time.gmtime())}; Debian's packages of
both servers.

| | Prometheus | VictoriaMetrics |
|---|---|---|
| hosts that answer | {found['up']:.0f} | {found['victoria_up']:.0f} |
| CPUs (CPU time ÷ time) | {cpus[0]:.3f} | {cpus[1]:.3f} |
| resident memory | {memory[0] / 2**20:.0f} MiB | {memory[1] / 2**20:.0f} MiB |
| bytes a sample on disk | {chunks / samples:.2f} | {size / rows:.2f} |
| slowest of {found['queries'][0][1]} queries of the fleet's dashboard | {found['queries'][0][0] * 1e3:.0f} ms | \
{found['queries'][1][0] * 1e3:.0f} ms |
| computed: a host's samples of a day on disk | {prometheus_day:.1f} MB | {victoria_day:.1f} MB |

- Samples of a scrape: {found['least']:.0f} to {found['most']:.0f} a host. Series in Prometheus, with those of
  the rules: {found['series']:.0f}.
- 99 of 100 scrapes take less than {found['scrape'] * 1e3:.0f} ms.
- Prometheus's index of that block has {index / series:.0f} bytes a series; a block is of two hours at first,
  and of days later.
- The recording rules and alerts take Prometheus {found['rules'] * 1e3:.0f} ms each interval.
- All {args.hosts} hosts together take {hosts_cpus:.2f} CPUs; that is what replaying costs, and not weir on a
  host ([loop](loop.md)).
- {samples} samples were stored; over a longer time each takes less.
- Recorded runs lie in the past, so `WeirStalled` and `WeirLimitedLong` fire for all hosts here.
"""


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--settle-secs", type=int, default=90)
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "target/release/weir")
    parser.add_argument("--servers", type=pathlib.Path, default=cache / "weir/servers")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/evidence/fleet.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        args.out.write_text(page(args, *measured(args, pathlib.Path(folder))))
    print(args.out.read_text())


if __name__ == "__main__":
    main()
