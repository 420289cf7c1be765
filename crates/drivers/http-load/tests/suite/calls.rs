//! Invalid arguments and plans, and faulty servers: messages, exit codes, and that every request is accounted for.

mod before;
mod daemon;
mod ends;
mod failures;
mod wrong;
