//! Code that null peers share. A null peer answers at once and costs next to nothing, so that it shows the maximum of a
//! driver. With [`delays`] it answers when planned, so that the percentiles of a driver can be checked by arithmetic;
//! [`held`] records how long each request was really held. [`options`] has the command line of both.

pub mod delays;
pub mod held;
pub mod options;
