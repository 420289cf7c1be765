//! The sockets of a driver. [`sources`] chooses where connections come from, [`dial`] opens them, and [`pool`] decides
//! how many are open and when. [`write_buffer`] keeps what the kernel does not take at once, and [`ports`] reserves ports
//! for servers that are launched. [`url`] says which server a URL names, and [`http1`] reads responses; no other protocol
//! is known here.

pub mod dial;
pub mod http1;
pub mod pool;
pub mod ports;
pub mod sources;
pub mod url;
pub mod write_buffer;
