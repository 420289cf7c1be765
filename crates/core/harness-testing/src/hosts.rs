//! Hosts for tests on this machine: network namespaces with an address and a name each, connected by a switch that
//! delays and loses packets. Nothing of the machine's own network is touched.
//!
//! The switch is a thread that passes the Ethernet frames of TAP devices on. `tc netem` would do the same, but kernels
//! of small virtual machines do not have it.

use std::collections::VecDeque;
use std::ffi::{OsStr, c_int};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use load::clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::unistd::geteuid;
use rand::RngExt as _;

use test_kit::skip;

/// Time that a packet takes from one host to another, nanoseconds.
const DELAY_NS: u64 = 1_000_000;
/// Share of the packets that are lost.
const LOSS: f64 = 0.01;
/// Longest time until the switch notices its end.
const LOOKING: Duration = Duration::from_millis(50);
/// Longest frame: the devices' MTU, with its header.
const LONGEST_FRAME: usize = 1_600;
/// The device of TAP and TUN interfaces.
const TUN: &str = "/dev/net/tun";

/// Number of networks that this process has made.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// A network of hosts. Dropping it removes the hosts, with what still runs in them cut off.
#[derive(Debug)]
pub struct Hosts {
    /// Prefix of the names of the namespaces.
    prefix: String,
    count: u8,
    switch: Option<JoinHandle<()>>,
    state: Arc<SwitchState>,
}

/// State that a network shares with its switch.
#[derive(Debug)]
struct SwitchState {
    /// Packets to each host that were lost.
    lost: Vec<AtomicU64>,
    has_ended: AtomicBool,
}

impl Hosts {
    /// Creates hosts whose packets take 1 ms and are lost at random, one in a hundred, in each direction; at most 250.
    /// Returns `None`, and reports the test as skipped, if this user is not root or something is missing.
    ///
    /// # Panics
    /// The kernel refuses a namespace or a device.
    #[must_use]
    pub fn create(count: u8) -> Option<Self> {
        for (program, package) in [("ip", "iproute2"), ("unshare", "util-linux")] {
            if Command::new(program).arg("--version").output().is_err() {
                skip(format!("{program}, of the package {package}"));
                return None;
            }
        }
        if !geteuid().is_root() {
            skip("root, to make network namespaces");
            return None;
        }
        if File::open(TUN).is_err() {
            skip(format!("{TUN}, to connect network namespaces"));
            return None;
        }
        let state = SwitchState {
            lost: (0..count).map(|_| AtomicU64::new(0)).collect(),
            has_ended: AtomicBool::new(false),
        };
        let mut hosts = Self {
            prefix: format!(
                "drover-{}-{}",
                std::process::id(),
                NETWORKS.fetch_add(1, Ordering::Relaxed)
            ),
            count,
            switch: None,
            state: Arc::new(state),
        };
        let ports: Vec<File> = (0..count).map(|host| hosts.add(host)).collect();
        let state = Arc::clone(&hosts.state);
        hosts.switch = Some(std::thread::spawn(move || run_switch(&ports, &state)));
        Some(hosts)
    }

    /// Adds a host, and returns the switch's side of its device.
    fn add(&self, host: u8) -> File {
        let name = self.name(host);
        ip(&["netns", "add", &name]);
        let namespace = File::open(format!("/run/netns/{name}")).unwrap();
        // A thread that has entered a namespace does not come back.
        let port = std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            create_tap("eth0").unwrap()
        });
        let port = port.join().unwrap();
        let address = format!("{}/24", self.address(host));
        ip(&["-n", &name, "address", "add", &address, "dev", "eth0"]);
        ip(&["-n", &name, "link", "set", "eth0", "up"]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        port
    }

    fn name(&self, host: u8) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Returns the address of a host. Only the hosts of this network reach it.
    #[must_use]
    pub fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, host + 1)
    }

    /// Returns a call of a program on a host, whose name is `host-N`.
    #[must_use]
    pub fn command(&self, host: u8, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        let named = format!("hostname host-{host}; exec \"$@\"");
        command.args(["netns", "exec", &self.name(host), "unshare", "--uts"]);
        command.args(["sh", "-c", &named, "sh"]).arg(program);
        command
    }

    /// Returns the number of packets to a host that were lost.
    #[must_use]
    pub fn lost_packets(&self, host: u8) -> u64 {
        self.state.lost[usize::from(host)].load(Ordering::Relaxed)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
        // A switch that has panicked has passed no packets on, so the test has failed.
        let _ = self.switch.take().map(JoinHandle::join);
        for host in 0..self.count {
            // One that was not made need not be removed.
            let _ = Command::new("ip")
                .args(["netns", "delete", &self.name(host)])
                .output();
        }
    }
}

/// Creates a TAP device in the network namespace of this thread.
#[expect(unsafe_code, reason = "no crate here creates TAP devices")]
fn create_tap(name: &str) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let device = open.open(TUN)?;
    // SAFETY: all fields of the request are numbers or arrays of numbers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (into, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *into = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    // SAFETY: the descriptor is open, and the kernel reads and writes one `ifreq`, which outlives the call.
    let made: c_int = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    match made {
        0 => Ok(device),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Passes frames on to all other ports, each after the delay, or never. The hosts themselves discard what is for
/// another.
fn run_switch(ports: &[File], state: &SwitchState) {
    let mut under_way = VecDeque::new();
    let mut frame = vec![0; LONGEST_FRAME];
    let mut random = rand::rng();
    while !state.has_ended.load(Ordering::Relaxed) {
        let next: Option<&(u64, usize, Vec<u8>)> = under_way.front();
        let left = next.map_or(LOOKING, |(due, _, _)| {
            Duration::from_nanos(due.saturating_sub(clock::now()))
        });
        let mut polled: Vec<PollFd<'_>> = ports
            .iter()
            .map(|port| PollFd::new(port.as_fd(), PollFlags::POLLIN))
            .collect();
        // Rounded up to milliseconds: a packet takes one to two.
        let timeout = PollTimeout::try_from(left + Duration::from_micros(999)).unwrap();
        poll(&mut polled, timeout).unwrap();
        for (from, mut port) in ports.iter().enumerate() {
            while let Some(length) = read(&mut port, &mut frame) {
                let due = clock::now() + DELAY_NS;
                under_way.push_back((due, from, frame[..length].to_vec()));
            }
        }
        let now = clock::now();
        while let Some((_, from, frame)) = under_way.pop_front_if(|(due, _, _)| *due <= now) {
            for (to, mut port) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
                if random.random_bool(LOSS) {
                    state.lost[to].fetch_add(1, Ordering::Relaxed);
                } else {
                    // A port whose queue is full loses the frame, as a switch does.
                    let _ = port.write(&frame);
                }
            }
        }
    }
}

/// Reads a frame, if there is one.
fn read(port: &mut &File, frame: &mut [u8]) -> Option<usize> {
    match port.read(frame) {
        Ok(length) => Some(length),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        // The device is down until the host has an address.
        Err(_) => None,
    }
}

fn ip(arguments: &[&str]) {
    let mut command = Command::new("ip");
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
