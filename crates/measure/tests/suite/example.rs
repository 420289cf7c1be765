//! Handmade results and suites, of which every figure is known.

pub(crate) mod http;
pub(crate) mod redis;
pub(crate) mod result;
pub(crate) mod suite;
