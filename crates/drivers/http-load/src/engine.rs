//! The implementations of HTTP: [`wire`] has this crate's own parser, [`hyper`] the library. `roles` decides for both.

pub(crate) mod hyper;
pub(crate) mod wire;
