//! A fuzz target: the lines between processes.

use measure::tally::Decoder;

use super::{Orders, ProcessSpec, Report, line, read};

/// A line that can be read is the same after it was written again, and its values can be added up.
pub(crate) fn message(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    if let Ok(report) = Report::parse(text) {
        let written = line(&report).expect("a report can be written");
        let again = str::from_utf8(&written).expect("a line is text");
        let again = Report::parse(again).expect("a written report can be read");
        assert_eq!(format!("{again:?}"), format!("{report:?}"));
        let _ = read(report, &[], &mut Decoder::new());
    }
    if let Ok(orders) = Orders::parse(text) {
        let written = orders.line().expect("orders can be written");
        let again = str::from_utf8(&written).expect("a line is text");
        let again = Orders::parse(again).expect("written orders can be read");
        assert_eq!(format!("{again:?}"), format!("{orders:?}"));
    }
    let _ = ProcessSpec::parse(text);
}
