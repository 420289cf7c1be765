//! Measures the cost of sampling many processes with many open files, which happens once a second, beside the
//! measurement.

#![expect(clippy::expect_used, reason = "a bench that panics has failed")]
#![allow(missing_docs, reason = "criterion's macros")]

use std::fs::File;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use criterion::Criterion;
use load::clock;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use subject::usage::{Machine, Sampler};

/// The variable, set in a process that only holds files open, with their number.
const HOLDS: &str = "DROVER_BENCH_HOLDS";

/// Processes and open files of each: the small and the full size of one side of a run with 1,000,000 connections.
const SHAPES: [(usize, usize); 2] = [(20, 15_000), (128, 8_000)];

fn main() {
    if let Ok(files) = std::env::var(HOLDS) {
        return hold(files.parse().expect("it was set below"));
    }
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    for (processes, files) in SHAPES {
        let mut held: Vec<Child> = (0..processes).map(|_| holder(files)).collect();
        for child in &mut held {
            let mut ready = [0];
            let output = child.stdout.as_mut().expect("it is piped");
            output.read_exact(&mut ready).expect("it says when");
        }
        let mut sampler = Sampler::new(std::process::id(), &[]);
        let first = sampler.sample(clock::now());
        let name = format!("{} processes, {} files", first.processes, first.fds);
        criterion.bench_function(&name, |bencher| {
            bencher.iter_custom(|times| cpu_of(times, || sampler.sample(clock::now())));
        });
        for mut child in held {
            // The process ends when its input does.
            drop(child.stdin.take());
            child.wait().expect("it was started here");
        }
    }
    let mut machine = Machine::open().expect("this is Linux");
    criterion.bench_function("the machine", |bencher| {
        bencher.iter_custom(|times| cpu_of(times, || machine.snapshot()));
    });
    criterion.final_summary();
}

/// Returns the CPU time of this thread; other activity on the machine is not part of it.
fn cpu_of<T>(times: u64, mut look: impl FnMut() -> T) -> Duration {
    let began = clock::thread_cpu_ns();
    for _ in 0..times {
        black_box(look());
    }
    Duration::from_nanos(clock::thread_cpu_ns() - began)
}

fn holder(files: usize) -> Child {
    Command::new(std::env::current_exe().expect("this program is a file"))
        .env(HOLDS, files.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs")
}

fn hold(files: usize) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("every process has one");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("it may be raised so far");
    let _held: Vec<File> = (0..files)
        .map(|_| File::open("/dev/null").expect("the limit allows it"))
        .collect();
    let mut output = std::io::stdout();
    output.write_all(b".").expect("somebody waits for it");
    output.flush().expect("somebody waits for it");
    let mut nothing = Vec::new();
    // Wait until the parent closes the pipe, or has ended.
    std::io::stdin()
        .read_to_end(&mut nothing)
        .expect("a pipe is read");
}
