#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the documents of a recording of weir, one JSON object a line (docs/recording-format.md).

Stops at the first tick, text or session that is not what was written, if the file has checksums.
For trusted files: nothing here is bounded. Usage: read-recording.py FILE
"""
import json
import sqlite3
import struct
import sys
import zlib


def crc32(kind, values):
    """The sum of rows, by the page above."""
    data = kind.encode()
    for value in values:
        if value is None:
            data += b"n"
        elif isinstance(value, int):
            data += b"i" + struct.pack("<q", value)
        elif isinstance(value, float):
            data += b"r" + struct.pack("<d", value + 0.0)
        else:
            letter, value = (b"t", value.encode()) if isinstance(value, str) else (b"b", value)
            data += letter + struct.pack("<q", len(value)) + value
    return zlib.crc32(data)


def split(document):
    """A document around its sum: what comes before, the sum, what comes after; None if it has none."""
    place = 1
    if document[0] == 9:
        for _ in range(2):
            while document[place] >= 0x80:
                place += 1
            place += 1
    elif not (0x40 <= document[0] < 0x80 and document[0] & 1):
        return None
    if document[place] != 4:
        return None
    head, digits, tail = document[: place + 1], document[place + 1 : place + 6], document[place + 6 :]
    return head, sum((byte & 0x7F) << 7 * n for n, byte in enumerate(digits)), tail


def check(what, holds):
    if not holds:
        sys.exit(f"{what}: its checksum differs")


def check_rows(database):
    """Sessions and texts."""
    for row in database.execute("SELECT * FROM session"):
        *start, config, description = row
        if '"recorded":' in config:
            wanted = crc32("session", [*start, config[:-11], description])
            check(f"session {row[0]}", config[-11:] == f'{wanted:08x}"}}}}')
    tables = [name for name, in database.execute("SELECT name FROM sqlite_schema")]
    if "text_check" in tables:
        rows = database.execute("SELECT id, text, crc32 FROM text JOIN text_check USING (id)")
        for number, text, wanted in rows:
            check(f"text {number}", crc32("text", [number, text]) == wanted)


class Reader:
    """Values against old ones, by the table of the page above."""

    def __init__(self, texts):
        self.texts = texts
        self.clock = 0

    def document(self, data, old):
        self.data, self.place = data, 0
        return self.value(old, False)

    def byte(self):
        self.place += 1
        return self.data[self.place - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def value(self, old, is_clock):
        tag = self.byte()
        if tag >= 0x80:
            zigzag = tag & 0x3F | (self.number() << 6 if tag & 0x40 else 0)
            step = zigzag >> 1 if zigzag % 2 == 0 else -(zigzag >> 1) - 1
            result = ((self.clock if is_clock else old) + step) % 2**64
            if is_clock:
                self.clock = result
            return result
        if tag >= 0x40 or tag == 10:
            return self.fields(tag, old)
        if tag == 4:
            return self.number()
        if tag == 5:
            return -self.number()
        if tag == 6:
            self.place += 8
            return struct.unpack("<d", self.data[self.place - 8 : self.place])[0]
        if tag == 7:
            return self.texts[self.number()]
        if tag == 8:
            return [self.value(None, False) for _ in range(self.number())]
        if tag == 9:
            return dict(self.member() for _ in range(self.number()))
        if tag == 11:
            return self.items(old)
        return {0: old, 1: None, 2: False, 3: True}[tag]

    def member(self):
        name = self.texts[self.number()]
        return name, self.value(None, name == "at")

    def fields(self, tag, old):
        bits = tag & 0x3F
        if tag == 10:
            bits = int.from_bytes(bytes(self.byte() for _ in range((len(old) + 7) // 8)), "little")
        changed = lambda place: bits >> place & 1
        return {
            name: self.value(value, name == "at") if changed(place) else value
            for place, (name, value) in enumerate(sorted(old.items(), key=lambda m: m[0].encode()))
        }

    def items(self, old):
        length, items, cursor = self.number(), [], 0
        while len(items) < length:
            what = self.byte()
            if what == 0:
                items.append(self.value(None, False))
            elif what == 1:
                items.append(self.value(old[cursor], False))
                cursor += 1
            else:
                count = self.number()
                if what == 2:
                    items += old[cursor : cursor + count]
                cursor += count
        return items


def main(path):
    database = sqlite3.connect(path)
    check_rows(database)
    reader = Reader(dict(database.execute("SELECT id, text FROM text")))
    old = None
    for *row, data in database.execute("SELECT * FROM tick ORDER BY id"):
        if parts := split(data):
            head, wanted, tail = parts
            check(f"tick {row[0]}", crc32("tick", [*row, head + tail]) == wanted)
        if row[3]:
            old, reader.clock = None, 0
        old = reader.document(data, old)
        print(json.dumps(old))


main(sys.argv[1])
