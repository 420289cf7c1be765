//! The published JSON Schema of manifests.

use harness_testing::reference::check_schema;
use subject::manifest::Manifest;

#[test]
fn the_schema_of_manifests_agrees_with_their_type() {
    check_schema::<Manifest>("daemons/daemon.schema.json", "The manifest of a daemon");
}
