//! The C programs that the driver and the daemon are compared with.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_client_and_the_server_in_c_compile_without_a_warning_and_exchange_heartbeats() {
    let folder = tempfile::tempdir().unwrap();
    let [client, server] = ["client", "server"].map(|name| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/c/{name}.c"));
        let program = folder.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
        let compiled = compiler.arg(&program).arg(source).status();
        assert!(compiled.unwrap().success(), "{name}");
        program
    });
    // It ends with the thread of this test.
    let mut serve = Command::new(server);
    let mut serving = serve.arg("0").stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    let mut output = BufReader::new(serving.stdout.take().unwrap());
    output.read_line(&mut port).unwrap();
    for rate in ["100", "0"] {
        let output = Command::new(&client)
            .args([port.trim(), "4", rate, "1"])
            .output();
        let sent = String::from_utf8(output.unwrap().stdout).unwrap();
        let per_second: f64 = sent.trim().parse().unwrap();
        // A closed loop of four sends the next ones only after answers.
        let least = if rate == "0" { 5.0 } else { 90.0 };
        assert!(per_second >= least, "{rate}: {per_second}");
    }
    serving.kill().unwrap();
    serving.wait().unwrap();
}
