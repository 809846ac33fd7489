// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of `/proc` and lists of sysfs. Each parser gets the same bytes; what it read is printed and read
//! again, and says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_linux::parse::cpu::{arm, cpu, flags};
use weir_linux::parse::process::{
    MigratedPages, mapped_file, mapping, migrated_pages, moved_pages, runnable, stat,
};
use weir_linux::parse::sysfs::{counter_dump, list, node_size, pairs};
use weir_linux::parse::{decimal, lines, signed};

/// So many groups have registers at most.
const GROUPS_MAX: usize = 512;

fn check_numbers(text: &[u8]) {
    if let Ok(number) = decimal(text) {
        assert_eq!(decimal(number.to_string().as_bytes()), Ok(number));
        assert_eq!(signed(text).ok(), i64::try_from(number).ok());
    }
    if let Ok(number) = signed(text) {
        assert_eq!(signed(number.to_string().as_bytes()), Ok(number));
    }
}

fn check_stat(text: &[u8]) {
    let Ok(found) = stat(text) else {
        return;
    };
    // The name is all between the first and the last bracket.
    assert!(
        found.comm.is_empty()
            || text
                .windows(found.comm.len())
                .any(|part| part == found.comm)
    );
    let flags = if found.is_kernel { 0x0020_0000 } else { 0 };
    let before = format!(
        ") S 1 1 1 0 -1 {flags} {} 0 0 0 {} 0 0 0 20 {} {} 0 {} 0 {} ",
        found.faults,
        found.cpu_ticks,
        found.nice,
        found.threads,
        found.start_ticks,
        found.resident_pages,
    );
    // Between the resident pages and the policy there are sixteen more.
    let rest = before + &"0 ".repeat(16) + &found.policy.to_string();
    let printed = [b"1 (", found.comm.as_slice(), rest.as_bytes()].concat();
    assert_eq!(stat(&printed), Ok(found));
}

fn check_maps(text: &[u8]) {
    for line in lines(text) {
        if let Ok(found) = mapping(line) {
            let ratio = found.file_ratio();
            assert!((0.0..=1.0).contains(&ratio), "{ratio}");
            assert!(ratio == 0.0 || found.file.is_some());
            let words = line.split(|byte| *byte == b' ' || *byte == b'\t');
            assert!(found.nodes().count() <= words.count());
        }
        if let Some((_, [device, inode])) = mapped_file(line) {
            assert!(!device.is_empty() && decimal(inode).is_ok_and(|inode| inode > 0));
        }
    }
}

fn check_counts(text: &[u8]) {
    if let Ok(MigratedPages {
        all,
        demoted,
        promoted,
    }) = migrated_pages(text)
    {
        let printed = format!(
            "pgmigrate_success {all}\npgdemote_kswapd {demoted}\npgpromote_success {promoted}\n"
        );
        let again = migrated_pages(printed.as_bytes());
        assert_eq!(
            again,
            Ok(MigratedPages {
                all,
                demoted,
                promoted
            })
        );
    }
    if let Ok(count) = moved_pages(text) {
        let printed = format!("pgmigrate_success {count}\n");
        assert_eq!(moved_pages(printed.as_bytes()), Ok(count));
    }
    if let Ok(count) = runnable(text) {
        let printed = format!("0.00 0.00 0.00 {count}/1 1");
        assert_eq!(runnable(printed.as_bytes()), Ok(count));
    }
}

fn check_sysfs(text: &[u8]) {
    if let Ok(numbers) = list(text) {
        assert!(numbers.windows(2).all(|two| two[0] < two[1]) && numbers.len() <= 65_536);
        let printed: Vec<String> = numbers.iter().map(u32::to_string).collect();
        assert_eq!(list(printed.join(",").as_bytes()), Ok(numbers));
    }
    if let Ok(size) = node_size(text) {
        assert_eq!(size % 1024, 0);
    }
    assert_eq!(pairs(text).count(), text.len() / 16);
    if let Ok(groups) = counter_dump(text, GROUPS_MAX) {
        assert!(groups.len() <= GROUPS_MAX);
        let line = |pair: &weir_linux::parse::sysfs::Pair| {
            format!("{} {}\n", pair.read_bytes, pair.write_bytes)
        };
        let printed = "read write\n".to_owned() + &groups.iter().map(line).collect::<String>();
        assert_eq!(counter_dump(printed.as_bytes(), GROUPS_MAX), Ok(groups));
    }
}

fn check_cpu(text: &[u8]) {
    if let Ok(found) = cpu(text) {
        assert!(
            !found.vendor.is_empty() && found.vendor.bytes().all(|byte| byte.is_ascii_graphic())
        );
        let printed = format!(
            "vendor_id : {}\ncpu family : {}\nmodel : {}\n",
            found.vendor, found.family, found.model
        );
        assert_eq!(cpu(printed.as_bytes()), Ok(found));
    }
    assert!(flags(text).all(|flag| !flag.is_empty()));
    assert!(arm(text).is_none_or(|said| !said.contains(char::is_control)));
}

fuzz_target!(|bytes: &[u8]| {
    check_numbers(bytes);
    check_stat(bytes);
    check_maps(bytes);
    check_counts(bytes);
    check_sysfs(bytes);
    check_cpu(bytes);
});
