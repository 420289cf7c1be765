//! Measures the memory of a joined client, and the CPU time of an update with its answer and two events.
//!
//! `cargo run --release -p presence-sdk --example memory [CLIENTS [URL]]` opens 2,000 clients, two per room, on a
//! current-thread runtime. Without a URL it starts a server in a process of its own.

#![expect(clippy::print_stdout, reason = "a program prints its figures")]

#[path = "../tests/suite/server.rs"]
mod server;

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use presence_sdk::{Events, Options, RealtimeClient, RoomHandle};
use serde_json::json;

const ROUNDS: usize = 5;
const AT_A_TIME: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "2000".to_owned());
    if first == "serve" {
        println!("{}", server::start().await);
        // The parent closes the standard input when it ends.
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        return Ok(());
    }
    let clients: usize = first.parse()?;
    let Some(url) = arguments.next() else {
        return with_own_server(clients).await;
    };
    measure(&url, clients).await
}

async fn with_own_server(clients: usize) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut url = String::new();
    let output = child.stdout.take().ok_or("the output is piped")?;
    BufReader::new(output).read_line(&mut url)?;
    let outcome = measure(url.trim(), clients).await;
    drop(child.stdin.take());
    child.wait()?;
    outcome
}

async fn measure(url: &str, clients: usize) -> Result<(), Box<dyn Error>> {
    let options = std::sync::Arc::new(Options::new());
    let before = private_kib()?;
    let mut joined: Vec<(RoomHandle, Events)> = Vec::with_capacity(clients);
    for begin in (0..clients).step_by(50) {
        let batch = (begin..clients.min(begin + 50)).map(|index| {
            let options = std::sync::Arc::clone(&options);
            async move {
                let client = RealtimeClient::connect_with(url, options).await?;
                let events = client.events();
                let (room, user) = (format!("room-{}", index / 2), format!("user-{index}"));
                let room = client.join_room(&room, &user).await?;
                Ok::<_, presence_sdk::Error>((room, events))
            }
        });
        joined.extend(try_join_all(batch).await?);
    }
    drain(&mut joined).await;
    report("joined", before, clients)?;
    let busy = cpu_ns()?;
    for round in 0..ROUNDS {
        for chunk in joined.chunks_mut(AT_A_TIME) {
            let patch = json!({"n": round, "t": 1_763_000_000_000_u64});
            let calls = chunk.iter().map(|(room, _)| room.update_state(&patch));
            for answer in join_all(calls).await {
                answer?;
            }
            drain(chunk).await;
        }
    }
    let updates = (ROUNDS * clients) as u64;
    println!(
        "update: {} ns of CPU, with its answer and two events",
        (cpu_ns()? - busy) / updates
    );
    report("after the updates", before, clients)
}

/// Reads the events that have arrived.
async fn drain(joined: &mut [(RoomHandle, Events)]) {
    tokio::time::sleep(Duration::from_millis(5)).await;
    for (_, events) in joined {
        while events.try_next().is_some() {}
    }
}

fn report(when: &str, before_kib: u64, clients: usize) -> Result<(), Box<dyn Error>> {
    let bytes = (private_kib()? - before_kib) * 1024 / clients as u64;
    println!("{when}: {bytes} bytes of user memory per client");
    Ok(())
}

/// Returns the private memory of this process, without its program.
fn private_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("/proc/self/status has no RssAnon")?.parse()?)
}

/// Returns the CPU time of this thread.
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text
        .split_whitespace()
        .next()
        .ok_or("schedstat is empty")?
        .parse()?)
}
