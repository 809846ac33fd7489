// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags over the file, and the file over the defaults, for each setting of a list.
//!
//! A setting stood in seven lists before, and one that is forgotten in a list is read from the file and has
//! no effect. Here it stands in one of three parts of a list: `args` for what becomes a part of something
//! else (the controller's settings), `followed` for what a reload follows, and `kept` for what decides what
//! is opened at the start.

use crate::cli::devices::NodeArgs;

/// `NAME: GIVEN => MEANT = how`: what flag and file give, what is meant by it, and how the one becomes the
/// other.
macro_rules! settings {
    ($(
        args { $($(#[$own_attr:meta])* $own:ident: $own_type:ty,)* }
        followed { $($(#[$new_attr:meta])* $new:ident: $new_given:ty => $new_meant:ty = $new_how:expr,)* }
        kept { $($(#[$old_attr:meta])* $old:ident: $old_given:ty => $old_meant:ty = $old_how:expr,)* }
    )*) => {
        /// What `weir run` and `weir record` have in common, as flags or a file give it.
        #[derive(Clone, Debug, Default, Args, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct LoopArgs {
            $(
                $($(#[$own_attr])* pub $own: $own_type,)*
                $($(#[$new_attr])* pub $new: $new_given,)*
                $($(#[$old_attr])* pub $old: $old_given,)*
            )*
        }

        /// Everything `weir run` needs to know.
        #[derive(Clone, Debug)]
        pub struct Settings {
            /// The controller's settings; the set-point is filled in by [`Settings::resolve`].
            pub config: Config,
            /// File and line of the set-point, where the file says it.
            pub set_point_place: Option<String>,
            $($(pub $new: $new_meant,)* $(pub $old: $old_meant,)*)*
        }

        impl LoopArgs {
            pub(super) fn over(self, file: LoopArgs) -> LoopArgs {
                use $crate::run::settings::layers::Layer;
                LoopArgs {
                    $(
                        $($own: self.$own.over(file.$own),)*
                        $($new: self.$new.over(file.$new),)*
                        $($old: self.$old.over(file.$old),)*
                    )*
                }
            }

            pub(super) fn meant(self, config: Config, set_point_place: Option<String>) -> Settings {
                Settings {
                    config,
                    set_point_place,
                    $(
                        $($new: { let how: fn($new_given) -> $new_meant = $new_how; how(self.$new) },)*
                        $($old: { let how: fn($old_given) -> $old_meant = $old_how; how(self.$old) },)*
                    )*
                }
            }
        }

        impl Settings {
            #[cfg(test)]
            pub const KEPT: &[&str] = &[$($(stringify!($old),)*)*];

            /// Keeps what a reload cannot change as `old` has it. Gives the names of what is another now.
            pub fn keep(&mut self, old: &Settings) -> Vec<String> {
                let mut others = Vec::new();
                $($(if self.$old != old.$old {
                    others.push(stringify!($old).replace('_', "-"));
                    self.$old = old.$old.clone();
                })*)*
                others
            }
        }
    };
}
pub(super) use settings;

/// What flags say over what the file says.
pub(super) trait Layer {
    fn over(self, file: Self) -> Self;
}

impl<T> Layer for Option<T> {
    fn over(self, file: Self) -> Self {
        self.or(file)
    }
}

impl Layer for bool {
    fn over(self, file: Self) -> Self {
        self || file
    }
}

/// Lists add up.
impl Layer for Vec<String> {
    fn over(self, file: Self) -> Self {
        [file, self].concat()
    }
}

impl Layer for NodeArgs {
    fn over(self, file: Self) -> Self {
        if self.device.is_empty() { file } else { self }
    }
}
