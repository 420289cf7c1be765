//! Has no work to do. Cargo takes build dependencies, and their features, only from a package with a build script.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
