//! Numbers of options as people type them.

use std::any::TypeId;

use clap::Command;
use load::number;

/// Lets every option that takes a number read `10k` and `1.5m`.
pub(super) fn typed(command: Command) -> Command {
    command.mut_args(|arg| {
        let value = arg.get_value_parser().type_id();
        if value == TypeId::of::<f64>() {
            arg.value_parser(number::decimal)
        } else if value == TypeId::of::<u64>() {
            arg.value_parser(number::whole::<u64>)
        } else if value == TypeId::of::<u32>() {
            arg.value_parser(number::whole::<u32>)
        } else if value == TypeId::of::<u16>() {
            arg.value_parser(number::whole::<u16>)
        } else {
            arg
        }
    })
}
