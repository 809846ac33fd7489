-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- A recording of weir, format 2. Never edited once released: a new format is a new file beside this
-- one. Described for readers in docs/reference/recording-format.md.

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    started_unix_ms INTEGER NOT NULL,
    ended_unix_ms INTEGER,
    writer_version TEXT NOT NULL,
    writer_pid INTEGER NOT NULL,
    interval_ms INTEGER NOT NULL,
    policy TEXT NOT NULL,
    limiting INTEGER NOT NULL,
    config TEXT NOT NULL,
    description TEXT NOT NULL
) STRICT;

CREATE TABLE text (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE tick (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    wall_unix_ms INTEGER NOT NULL,
    is_key INTEGER NOT NULL,
    lost_before INTEGER NOT NULL,
    document BLOB NOT NULL,
    crc32 INTEGER NOT NULL
) STRICT;

CREATE TABLE span (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    first_tick INTEGER NOT NULL,
    last_tick INTEGER NOT NULL,
    end_unix_ms INTEGER NOT NULL,
    span_ns INTEGER NOT NULL,
    skipped INTEGER NOT NULL
) STRICT;

CREATE TABLE device_figures (
    span INTEGER NOT NULL,
    device INTEGER NOT NULL,
    read_bytes_per_sec INTEGER,
    write_bytes_per_sec INTEGER,
    unattributed_bytes_per_sec INTEGER,
    set_point_bytes_per_sec INTEGER,
    correction_ratio REAL NOT NULL,
    latency_ns INTEGER,
    unknown_ns INTEGER NOT NULL,
    PRIMARY KEY (span, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE workload_figures (
    span INTEGER NOT NULL,
    workload INTEGER NOT NULL,
    bytes_per_sec INTEGER,
    provenance INTEGER NOT NULL,
    unknown_ns INTEGER NOT NULL,
    cpu_microcpus INTEGER,
    throttled_microcpus INTEGER,
    allowed_bytes_per_sec INTEGER,
    limit_microcpus INTEGER,
    why INTEGER NOT NULL,
    PRIMARY KEY (span, workload)
) STRICT, WITHOUT ROWID;

CREATE TABLE action (
    tick INTEGER NOT NULL,
    position INTEGER NOT NULL,
    workload INTEGER NOT NULL,
    limit_cpus REAL,
    outcome INTEGER,
    detail INTEGER,
    PRIMARY KEY (tick, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE word (
    kind TEXT NOT NULL,
    code INTEGER NOT NULL,
    word TEXT NOT NULL,
    PRIMARY KEY (kind, code)
) STRICT, WITHOUT ROWID;

-- Checksums of rows that have no column for their own.
CREATE TABLE text_check (
    id INTEGER PRIMARY KEY,
    crc32 INTEGER NOT NULL
) STRICT;

CREATE TABLE span_check (
    id INTEGER PRIMARY KEY,
    crc32 INTEGER NOT NULL
) STRICT;

CREATE TABLE action_check (
    id INTEGER PRIMARY KEY,
    crc32 INTEGER NOT NULL
) STRICT;

CREATE VIEW device AS
SELECT session.id AS session,
    json_extract(device.value, '$.id') AS device,
    json_extract(device.value, '$.name') AS name,
    json_extract(device.value, '$.capacity_bytes_per_sec') AS capacity_bytes_per_sec
FROM session, json_each(session.description, '$.devices') AS device;

CREATE VIEW monitoring_group AS
SELECT session.id AS session,
    json_extract(found.value, '$.id.device') AS device,
    json_extract(found.value, '$.id.index') AS monitoring_group,
    json_extract(found.value, '$.node') AS node,
    json_extract(found.value, '$.size_bytes') AS size_bytes
FROM session, json_each(session.description, '$.groups') AS found;

CREATE VIEW fact AS
SELECT session.id AS session,
    json_extract(fact.value, '$.name') AS name,
    json_extract(fact.value, '$.value.Ok') AS value,
    json_extract(fact.value, '$.value.Err.reason') AS missing,
    json_extract(fact.value, '$.value.Err.detail') AS detail,
    json_extract(fact.value, '$.next_move') AS next_move
FROM session, json_each(session.description, '$.facts') AS fact;

CREATE VIEW devices AS
SELECT span.session,
    span.end_unix_ms,
    span.span_ns,
    figures.device,
    figures.read_bytes_per_sec,
    figures.write_bytes_per_sec,
    figures.unattributed_bytes_per_sec,
    figures.set_point_bytes_per_sec,
    figures.correction_ratio,
    figures.latency_ns,
    figures.unknown_ns
FROM device_figures AS figures
JOIN span ON span.id = figures.span;

CREATE VIEW workloads AS
SELECT span.session,
    span.end_unix_ms,
    span.span_ns,
    text.text AS workload,
    figures.bytes_per_sec,
    provenance.word AS provenance,
    figures.unknown_ns,
    figures.cpu_microcpus,
    figures.throttled_microcpus,
    figures.allowed_bytes_per_sec,
    figures.limit_microcpus,
    why.word AS why
FROM workload_figures AS figures
JOIN span ON span.id = figures.span
JOIN text ON text.id = figures.workload
LEFT JOIN word AS provenance ON provenance.kind = 'provenance' AND provenance.code = figures.provenance
LEFT JOIN word AS why ON why.kind = 'why' AND why.code = figures.why;

CREATE VIEW actions AS
SELECT tick.session,
    tick.wall_unix_ms,
    workload.text AS workload,
    action.limit_cpus,
    outcome.word AS outcome,
    detail.text AS detail
FROM action
JOIN tick ON tick.id = action.tick
JOIN text AS workload ON workload.id = action.workload
LEFT JOIN text AS detail ON detail.id = action.detail
LEFT JOIN word AS outcome ON outcome.kind = 'outcome' AND outcome.code = action.outcome;
