#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the documents of a recording of weir, one JSON object a line (docs/reference/recording-format.md).

Stops at the first session, text or tick that is not what was written.
For trusted files: nothing here is bounded. Usage: read-recording.py FILE
"""
import itertools
import sqlite3
import struct
import subprocess
import sys
import zlib

try:
    from compression.zstd import decompress  # Python 3.14
except ImportError:
    def decompress(frame):
        try:
            return subprocess.run(["zstd", "-dcq"], input=frame, capture_output=True, check=True).stdout
        except FileNotFoundError:
            sys.exit("no zstd: neither this Python nor a command has it")


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


def check(what, values, wanted):
    if crc32(what.split()[0], values) != wanted:
        sys.exit(f"{what}: its checksum differs")


def main(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for *start, config, description in database.execute("SELECT * FROM session"):
        check(f"session {start[0]}", [*start, config[:-11], description], int(config[-11:-3], 16))
    for number, text, wanted in database.execute("SELECT id, text, crc32 FROM text JOIN text_check USING (id)"):
        check(f"text {number}", [number, text], wanted)
    number = 0
    def frame(row):
        nonlocal number
        number += row[3]
        return number
    for _, rows in itertools.groupby(database.execute("SELECT * FROM tick ORDER BY id"), frame):
        pieces = []
        for *row, document, wanted in rows:
            check(f"tick {row[0]}", [*row, document], wanted)
            pieces.append(document)
        sys.stdout.write(decompress(b"".join(pieces) + b"\x01\0\0").decode())


main(sys.argv[1])
