// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of windows in format 1: what is read is written and read back the same, in both formats.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_profile::WindowFile;
use weir_profile::window_file::{Header, WindowEncoder};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = WindowFile::read(bytes) else {
        return;
    };
    // The fuzzer finds the other format too; as text it belongs to this one.
    file.header.weir_windows = 1;
    let text = file.to_text().expect("what was read is JSON");
    assert_eq!(WindowFile::parse(&text).as_ref(), Ok(&file));
    let mut encoder = WindowEncoder::new(&file.header).expect("memory");
    let mut framed = encoder.begin().expect("memory");
    for window in &file.windows {
        let added = encoder.add(window).expect("memory");
        framed.extend(added.expect("what one format takes, the other does"));
    }
    framed.extend(encoder.finish().expect("memory"));
    let again = WindowFile::read(&framed).expect("what was written is read");
    let header = Header {
        weir_windows: again.header.weir_windows,
        ..file.header
    };
    assert_eq!(again.header, header);
    assert_eq!(again.windows.len(), file.windows.len());
});
