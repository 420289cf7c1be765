//! Has no code: its dependencies are its purpose (see `Cargo.toml`).
