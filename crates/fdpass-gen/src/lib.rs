//! fdpass-gen
