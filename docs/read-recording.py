#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the documents of a recording of weir, one JSON object a line (docs/recording-format.md).

For trusted files: nothing here is bounded. Usage: read-recording.py FILE
"""
import json
import sqlite3
import struct
import sys


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
    reader = Reader(dict(database.execute("SELECT id, text FROM text")))
    old = None
    for is_key, data in database.execute("SELECT is_key, document FROM tick ORDER BY id"):
        if is_key:
            old, reader.clock = None, 0
        old = reader.document(data, old)
        print(json.dumps(old))


main(sys.argv[1])
