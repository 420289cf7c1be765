//! Cost of a request to the daemon: 64 requests in one write over a keep-alive connection, with their responses.
//!
//! The daemon is a separate process, so this measures what a client sees: system calls, parsing, the file. Requests are
//! batched, since the switch between client and daemon would dominate a single one.

use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;

const BATCH: usize = 64;

struct Daemon {
    child: Child,
    address: String,
    /// The folder of its files.
    _dir: TempDir,
}

impl Daemon {
    fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_http-daemon"))
            .args(["--http-port", "0", "--workers", "1"])
            .arg("--root")
            .arg(dir.path().join("www"))
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the daemon starts");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("it is piped");
        BufReader::new(stderr)
            .read_line(&mut line)
            .expect("it says where it listens");
        let (_, address) = line.trim().split_once("http://").expect("a URL");
        Self {
            child,
            address: address.to_owned(),
            _dir: dir,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("requests");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, path, arguments) in [
        ("1kb_read_each_time", "/1kb.txt", &[][..]),
        ("1kb_kept", "/1kb.txt", &["--cache-enabled", "true"]),
        ("10kb_kept", "/10kb.txt", &["--cache-enabled", "true"]),
        ("missing", "/missing.txt", &[]),
        ("sink", "/1kb.txt", &["--sink"]),
    ] {
        let daemon = Daemon::start(arguments);
        let mut stream = TcpStream::connect(&daemon.address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        // All responses have one length, since all dates have.
        let mut answer = vec![0; 64 * 1024];
        let length = stream.read(&mut answer).expect("it answers");
        let mut answers = vec![0; length * BATCH];
        let batch = request.repeat(BATCH);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                stream.write_all(batch.as_bytes()).expect("it reads");
                stream.read_exact(&mut answers).expect("it answers");
                black_box(&answers);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
