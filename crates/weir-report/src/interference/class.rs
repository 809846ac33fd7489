// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seven classes of influence, by the change of the victim's bandwidth (CXL-Interference, Table III): bounds
//! at 5, 10 and 40 % in both directions.

use serde::{Deserialize, Serialize};

/// The change up to which a background has no influence, relative to the victim alone.
pub const NONE_RATIO: f64 = 0.05;
/// The change up to which an influence is mild.
pub const MILD_RATIO: f64 = 0.10;
/// The change up to which an influence is moderate. A greater one is deep.
pub const MODERATE_RATIO: f64 = 0.40;

/// What a background does to a victim's bandwidth, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InfluenceClass {
    /// It takes more than 40 %.
    DeepSuppression,
    /// It takes 10 to 40 %.
    ModerateSuppression,
    /// It takes 5 to 10 %.
    MildSuppression,
    /// The bandwidth is within 5 % of that alone.
    None,
    /// The victim moves 5 to 10 % more.
    MildPromotion,
    /// The victim moves 10 to 40 % more.
    ModeratePromotion,
    /// The victim moves more than 40 % more.
    DeepPromotion,
}

impl InfluenceClass {
    /// All, from worst to best.
    pub const ALL: [InfluenceClass; 7] = [
        InfluenceClass::DeepSuppression,
        InfluenceClass::ModerateSuppression,
        InfluenceClass::MildSuppression,
        InfluenceClass::None,
        InfluenceClass::MildPromotion,
        InfluenceClass::ModeratePromotion,
        InfluenceClass::DeepPromotion,
    ];

    /// The class of a ratio of bandwidths, together ÷ alone. A ratio on a bound belongs to the milder class.
    #[must_use]
    pub fn of(ratio: f64) -> InfluenceClass {
        let change = ratio - 1.0;
        // A ratio such as 0.95 has no exact double: what lies within rounding of a bound is on it.
        let beyond = |bound: f64| change.abs() > bound + 4.0 * f64::EPSILON;
        match (
            change < 0.0,
            beyond(NONE_RATIO),
            beyond(MILD_RATIO),
            beyond(MODERATE_RATIO),
        ) {
            (_, false, ..) => InfluenceClass::None,
            (true, _, false, _) => InfluenceClass::MildSuppression,
            (true, _, _, false) => InfluenceClass::ModerateSuppression,
            (true, ..) => InfluenceClass::DeepSuppression,
            (false, _, false, _) => InfluenceClass::MildPromotion,
            (false, _, _, false) => InfluenceClass::ModeratePromotion,
            (false, ..) => InfluenceClass::DeepPromotion,
        }
    }

    /// The classes that an interval of ratios touches, from worst to best.
    #[must_use]
    pub fn between(low: f64, high: f64) -> Vec<InfluenceClass> {
        let (worst, best) = (
            InfluenceClass::of(low.min(high)),
            InfluenceClass::of(low.max(high)),
        );
        InfluenceClass::ALL
            .into_iter()
            .filter(|c| (worst..=best).contains(c))
            .collect()
    }

    /// Its name in documents and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            InfluenceClass::DeepSuppression => "deep-suppression",
            InfluenceClass::ModerateSuppression => "moderate-suppression",
            InfluenceClass::MildSuppression => "mild-suppression",
            InfluenceClass::None => "none",
            InfluenceClass::MildPromotion => "mild-promotion",
            InfluenceClass::ModeratePromotion => "moderate-promotion",
            InfluenceClass::DeepPromotion => "deep-promotion",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_the_milder_class() {
        let classes = |ratios: &[f64]| -> Vec<&str> {
            ratios
                .iter()
                .map(|r| InfluenceClass::of(*r).name())
                .collect()
        };
        assert_eq!(
            classes(&[0.067, 0.599, 0.60, 0.8999, 0.90, 0.9499, 0.95, 1.0]),
            [
                "deep-suppression",
                "deep-suppression",
                "moderate-suppression",
                "moderate-suppression",
                "mild-suppression",
                "mild-suppression",
                "none",
                "none"
            ]
        );
        assert_eq!(
            classes(&[1.05, 1.0501, 1.10, 1.11, 1.40, 1.41]),
            [
                "none",
                "mild-promotion",
                "mild-promotion",
                "moderate-promotion",
                "moderate-promotion",
                "deep-promotion"
            ]
        );
    }

    #[test]
    fn an_interval_names_each_class_that_it_touches() {
        use InfluenceClass::{MildSuppression, ModerateSuppression, None};
        assert_eq!(InfluenceClass::between(0.97, 1.01), [None]);
        assert_eq!(
            InfluenceClass::between(0.88, 0.96),
            [ModerateSuppression, MildSuppression, None]
        );
        assert_eq!(InfluenceClass::between(0.96, 0.93), [MildSuppression, None]);
    }

    #[test]
    fn names_are_those_in_json() {
        for class in InfluenceClass::ALL {
            let text = serde_json::to_string(&class).unwrap();
            assert_eq!(text, format!("\"{}\"", class.name()));
        }
    }
}
