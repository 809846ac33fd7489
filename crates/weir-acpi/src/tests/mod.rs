// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables made by hand from the standard's layouts, split, and read again; and what becomes of broken
//! ones.

mod hostile;
mod lenient;
mod made;
mod sound;
