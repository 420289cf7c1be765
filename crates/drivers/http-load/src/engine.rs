//! The implementations of HTTP: [`wire`] reads and writes itself, [`hyper`] is the library. `roles` decides for both.

pub(crate) mod hyper;
pub(crate) mod wire;
