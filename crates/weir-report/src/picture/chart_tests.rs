// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks of the bandwidth picture.

use super::*;

#[test]
fn ticks_are_round_and_inside() {
    let texts = |largest, most| -> Vec<String> {
        ticks(largest, most)
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    };
    assert_eq!(texts(96.0, 6), ["0", "20", "40", "60", "80"]);
    assert_eq!(texts(32.0, 10), ["0", "5", "10", "15", "20", "25", "30"]);
    assert_eq!(texts(1.0, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    for largest in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-320, 1e300] {
        assert!(ticks(largest, 6).len() <= 13, "{largest}");
    }
}
