//! The main function of every bench `instructions`. `scripts/instructions` runs these programs under callgrind.

/// The name of an operation, and a function that prepares it and performs it as often as its argument says.
pub type Operation = (&'static str, fn(u64));

/// Performs an operation as often as the command line says: `OPERATION COUNT`. Otherwise, as in `cargo bench`, performs
/// each operation once and prints its name.
#[expect(clippy::print_stdout, reason = "the script reads the names")]
pub fn run(operations: &[Operation]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [name, count] if !name.starts_with('-') => {
            let operation = operations.iter().find(|(known, _)| known == name);
            let (_, perform) = operation.expect("the bench has an operation of this name");
            perform(count.parse().expect("COUNT is a number"));
        }
        _ => {
            for (name, perform) in operations {
                perform(1);
                println!("{name}");
            }
        }
    }
}
