//! Tests of the checks, on whole histories.

mod histories;
