-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Checksums of rows that have no column for their own. They stand beside the tables of a format and
-- change none of them. Described in docs/reference/recording-format.md.

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
