//! What clients do, without I/O: which of them sends, over which connection, where a redirect leads, and whether a
//! response is as asked. Both engines use it.

pub(crate) mod checks;
pub(crate) mod clients;
pub(crate) mod cookies;
pub(crate) mod operation;
pub(crate) mod redirect;
pub(crate) mod session;
pub(crate) mod source;
