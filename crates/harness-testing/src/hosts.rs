//! Hosts for tests on this machine: network namespaces with an address and a name each, connected by a bridge in a
//! namespace of its own. Nothing of the machine's own network is touched.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::geteuid;

use crate::skip::skip;

/// Number of networks that this process has made.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// A network of hosts. Dropping it removes the hosts, with what still runs in them cut off.
#[derive(Debug)]
pub struct Hosts {
    /// Prefix of the names of the namespaces.
    prefix: String,
    count: u8,
}

impl Hosts {
    /// Creates hosts that lose one packet in a hundred, in each direction, at random; at most 250. Returns `None`, and
    /// reports the test as skipped, if this user is not root or a program is missing.
    ///
    /// The loss is a rule of nftables and not `tc netem`, which kernels of small virtual machines do not have.
    ///
    /// # Panics
    /// The kernel refuses a namespace, a bridge or a rule.
    #[must_use]
    pub fn create(count: u8) -> Option<Self> {
        for (program, package) in [
            ("ip", "iproute2"),
            ("nft", "nftables"),
            ("unshare", "util-linux"),
        ] {
            if Command::new(program).arg("--version").output().is_err() {
                skip(format!("{program}, of the package {package}"));
                return None;
            }
        }
        if !geteuid().is_root() {
            skip("root, to make network namespaces");
            return None;
        }
        let hosts = Self {
            prefix: format!(
                "drover-{}-{}",
                std::process::id(),
                NETWORKS.fetch_add(1, Ordering::Relaxed)
            ),
            count,
        };
        let bridge = hosts.bridge();
        ip(&["netns", "add", &bridge]);
        ip(&["-n", &bridge, "link", "add", "br0", "type", "bridge"]);
        ip(&["-n", &bridge, "link", "set", "br0", "up"]);
        for host in 0..count {
            hosts.add(host);
        }
        Some(hosts)
    }

    fn add(&self, host: u8) {
        let (name, bridge) = (self.name(host), self.bridge());
        let port = format!("port{host}");
        ip(&["netns", "add", &name]);
        ip(&[
            "-n", &bridge, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns",
            &name,
        ]);
        ip(&["-n", &bridge, "link", "set", &port, "master", "br0", "up"]);
        let address = format!("{}/24", self.address(host));
        ip(&["-n", &name, "address", "add", &address, "dev", "eth0"]);
        ip(&["-n", &name, "link", "set", "eth0", "up"]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        let rules = "add table inet loss; \
            add chain inet loss input { type filter hook input priority 0; }; \
            add rule inet loss input iifname eth0 numgen random mod 100 < 1 counter drop";
        run(Command::new("ip").args(["netns", "exec", &name, "nft", rules]));
    }

    fn bridge(&self) -> String {
        format!("{}-bridge", self.prefix)
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

    /// Returns the number of packets that a host has lost.
    #[must_use]
    pub fn lost_packets(&self, host: u8) -> u64 {
        let mut list = Command::new("ip");
        list.args(["netns", "exec", &self.name(host), "nft", "list", "ruleset"]);
        let rules = run(&mut list);
        let mut words = rules
            .split_whitespace()
            .skip_while(|word| *word != "packets");
        words
            .nth(1)
            .and_then(|count| count.parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let names = (0..self.count).map(|host| self.name(host));
        for name in names.chain([self.bridge()]) {
            // One that was not made need not be removed.
            let _ = Command::new("ip").args(["netns", "delete", &name]).output();
        }
    }
}

fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments));
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
