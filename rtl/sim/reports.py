# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the tests of JUnit reports: 0 (passed) or 1, a tab, "Suite: name"."""

import sys
import xml.etree.ElementTree as xml

for path in sys.argv[1:]:
    for case in xml.parse(path).getroot().iter("testcase"):
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        suite = case.get("classname").rsplit(".", 1)[-1]
        print(f"{int(bad)}\t{suite}: {case.get('name')} ({float(case.get('time')):.1f} s)")
