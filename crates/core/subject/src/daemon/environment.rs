//! Builds the environment of a manifest's commands: only variables named here or in the manifest are passed on.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables that every command gets: enough to find programs and no more, so that runs are alike.
const FOR_ALL: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// Variables that commands other than `run` also get: they tell compilers and package managers where to keep and find
/// things. daemons/README.md lists them.
const FOR_TOOLS: &[&str] = &[
    "USER",
    "LOGNAME",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    // Networks with a proxy or with a certificate authority of their own.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    // C, as build scripts call it.
    "CC",
    "CXX",
    "AR",
    "LD",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "OPENSSL_DIR",
    // Rust. Named one by one: `cargo run` sets CARGO, CARGO_MANIFEST_DIR, CARGO_PKG_… and more, and a nested cargo
    // would rebuild everything because of them.
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "RUST_BACKTRACE",
    // Go.
    "GO111MODULE",
    "GOCACHE",
    "GOENV",
    "GOEXPERIMENT",
    "GOFLAGS",
    "GOINSECURE",
    "GOMODCACHE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "GOTMPDIR",
    "GOTOOLCHAIN",
];

/// Prefixes of further variables that commands other than `run` get.
const FOR_TOOLS_BY_PREFIX: &[&str] = &[
    "CARGO_BUILD_",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_PROFILE_",
    "CARGO_REGISTRIES_",
    "CARGO_TARGET_",
    "CARGO_TERM_",
    "CARGO_UNSTABLE_",
    "RUSTUP_",
    "SCCACHE_",
    "CCACHE_",
    "CGO_",
    "PIP_",
];

/// Suffixes of names that hold a secret: a command gets those only if its manifest names them.
const SECRET_SUFFIXES: &[&str] = &[
    "_AUTH",
    "_CREDENTIALS",
    "_KEY",
    "_KEY_ID",
    "_PASSWORD",
    "_SECRET",
    "_TOKEN",
];

/// Returns the variables of this program that `run` gets, including those that the manifest passes on by name.
pub(super) fn for_run(pass_env: &[String]) -> BTreeMap<OsString, OsString> {
    filtered(std::env::vars_os(), |name| {
        FOR_ALL.contains(&name) || is_passed(name, pass_env)
    })
}

/// Returns the variables of this program that commands other than `run` get.
pub(super) fn for_tools(pass_env: &[String]) -> BTreeMap<OsString, OsString> {
    filtered(std::env::vars_os(), |name| {
        FOR_ALL.contains(&name) || is_for_tools(name) || is_passed(name, pass_env)
    })
}

/// Returns the environment of a build that no manifest describes, such as a driver's. With it, cargo does not
/// rebuild what a daemon's build has built.
#[must_use]
pub fn for_builds() -> BTreeMap<OsString, OsString> {
    for_tools(&[])
}

fn is_passed(name: &str, pass_env: &[String]) -> bool {
    pass_env.iter().any(|passed| passed == name)
}

fn is_for_tools(name: &str) -> bool {
    FOR_TOOLS.contains(&name)
        || (FOR_TOOLS_BY_PREFIX
            .iter()
            .any(|prefix| name.starts_with(prefix))
            && !is_secret(name))
}

/// Returns true for a name such as `CARGO_REGISTRIES_MINE_TOKEN`.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

fn filtered(
    variables: impl Iterator<Item = (OsString, OsString)>,
    is_kept: impl Fn(&str) -> bool,
) -> BTreeMap<OsString, OsString> {
    variables
        .filter(|(name, _)| OsStr::to_str(name).is_some_and(&is_kept))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_get_what_a_build_needs_and_nothing_that_cargo_run_sets() {
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_PROFILE_RELEASE_DEBUG",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
            "CARGO_REGISTRIES_MINE_INDEX",
            "RUSTUP_TOOLCHAIN",
            "https_proxy",
            "GOPROXY",
            "PIP_INDEX_URL",
        ] {
            assert!(is_for_tools(name), "{name}");
        }
        for name in [
            "CARGO",
            "CARGO_BIN_NAME",
            "CARGO_CRATE_NAME",
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
            "CARGO_PKG_VERSION",
            "CARGO_PRIMARY_PACKAGE",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_REGISTRIES_MINE_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "AMQP_PERFTEST_URI",
        ] {
            assert!(!is_for_tools(name), "{name}");
        }
    }

    #[test]
    fn a_manifest_may_pass_a_variable_on_by_name() {
        let all = ["A", "B_TOKEN", "PATH"].map(|name| (name.into(), "x".into()));
        let passed = ["B_TOKEN".to_owned()];
        let kept = filtered(all.into_iter(), |name| {
            FOR_ALL.contains(&name) || is_passed(name, &passed)
        });
        assert_eq!(
            kept.into_keys().collect::<Vec<_>>(),
            ["B_TOKEN", "PATH"].map(OsString::from)
        );
    }
}
