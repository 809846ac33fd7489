// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nelder and Mead's downhill simplex (Computer Journal 7, 1965), with its usual coefficients.
//! Deterministic: the start is given, nothing is drawn.

/// The minimum found from `start`; the first simplex has edges of `step`.
pub fn minimise<const N: usize>(
    cost: &mut impl FnMut(&[f64; N]) -> f64,
    start: [f64; N],
    step: f64,
    evaluations: usize,
) -> [f64; N] {
    let mut corners: Vec<([f64; N], f64)> = Vec::with_capacity(N + 1);
    for edge in 0..=N {
        let mut point = start;
        if edge > 0 {
            point[edge - 1] += step;
        }
        corners.push((point, cost(&point)));
    }
    let mut used = N + 1;
    while used < evaluations {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let worst = corners[N];
        let centre: [f64; N] =
            std::array::from_fn(|i| corners[..N].iter().map(|c| c.0[i]).sum::<f64>() / N as f64);
        let along = |t: f64| std::array::from_fn(|i| centre[i] + t * (worst.0[i] - centre[i]));
        let mut probe = |t: f64| {
            let point = along(t);
            used += 1;
            (point, cost(&point))
        };
        let reflected = probe(-1.0);
        let better = if reflected.1 < corners[0].1 {
            let expanded = probe(-2.0);
            if expanded.1 < reflected.1 {
                expanded
            } else {
                reflected
            }
        } else if reflected.1 < corners[N - 1].1 {
            reflected
        } else {
            let contracted = probe(if reflected.1 < worst.1 { -0.5 } else { 0.5 });
            if contracted.1 < worst.1.min(reflected.1) {
                contracted
            } else {
                worst
            }
        };
        if better.1 < worst.1 {
            corners[N] = better;
            continue;
        }
        let best = corners[0].0;
        for corner in &mut corners[1..] {
            corner.0 = std::array::from_fn(|i| 0.5 * (corner.0[i] + best[i]));
            corner.1 = cost(&corner.0);
            used += 1;
        }
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    corners[0].0
}
