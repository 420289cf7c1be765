//! The clients of both modes: [`wire`] has the driver's own frames, [`sdk`] the client library. `roles` decides for both.

pub(crate) mod sdk;
pub(crate) mod wire;
