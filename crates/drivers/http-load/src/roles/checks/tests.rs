//! Tests of checks that pass, checks that fail, and invalid checks.

use super::*;

const JSON: &[u8] = br#"{"a":{"b":1,"c":"text","d":[true,null]},"n":2.5}"#;

fn passes(text: &str, status: u16, fields: &[(&str, &str)], body: &[u8]) -> bool {
    let checks = Checks::parse(&[text.to_owned()]).unwrap();
    let mut captured = checks.new_capture();
    if let Some(captured) = &mut captured {
        // Kept parts of the previous response must be gone.
        let mut capture = ResponseCapture {
            checks: &checks,
            captured,
        };
        capture.field("etag", b"old");
        capture.piece(b"old old old");
        let headers: Vec<httparse::Header<'_>> = fields
            .iter()
            .map(|(name, value)| httparse::Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        capture.head(status, &headers);
        body.chunks(5).for_each(|piece| capture.body(piece));
    }
    let answer = ResponseView {
        status,
        length: body.len() as u64,
        service_ns: 2_000_000,
        captured: captured.as_deref(),
    };
    let mut found = Vec::new();
    checks.evaluate(answer, |index, passed| found.push((index, passed)));
    assert_eq!(found.len(), 1);
    found[0].1
}

#[test]
fn every_form_passes_and_fails() {
    let fields = [
        ("Content-Type", "text/plain"),
        ("X-One", "1"),
        ("x-one", "2"),
    ];
    for (text, expected) in [
        ("status==200", true),
        ("status == 201", false),
        ("status!=200", false),
        ("status<400", true),
        ("status in 200,204", true),
        ("status in 201, 204", false),
        ("body.length==48", true),
        ("body.length>48", false),
        ("duration<3ms", true),
        ("duration<2ms", false),
        ("duration<=2ms", true),
        ("header.content-type==text/plain", true),
        ("header.Content-Type == \"text/plain\"", true),
        ("header.content-type==text/html", false),
        ("header.content-type!=text/html", true),
        ("header.x-one==1", true),
        ("header.etag exists", false),
        ("header.x-one exists", true),
        ("header.etag==a", false),
        ("body contains \"a\":{\"b\"", true),
        ("body contains text", true),
        ("body contains \"texts\"", false),
        ("json.a.b==1", true),
        ("json.a.b==1.0", true),
        ("json.a.b>1", false),
        ("json.n>=2.5", true),
        ("json.a.c==text", true),
        ("json.a.c==\"text\"", true),
        ("json.a.c==1", false),
        ("json.a.d.0==true", true),
        ("json.a.d.1 exists", true),
        ("json.a.d.2 exists", false),
        ("json.a.x==1", false),
        ("json.a.x!=1", true),
    ] {
        assert_eq!(passes(text, 200, &fields, JSON), expected, "{text}");
    }
    assert!(!passes("json.a exists", 200, &[], b"no json"));
    assert!(!passes("json.a!=1", 200, &[], b"no json"));
}

#[test]
fn only_what_is_asked_for_is_kept() {
    let kept = |text: &str| {
        Checks::parse(&[text.to_owned()])
            .unwrap()
            .new_capture()
            .is_some()
    };
    assert!(!kept("status==200") && !kept("duration<1s") && !kept("body.length==1"));
    assert!(kept("header.etag exists") && kept("body contains a") && kept("json.a exists"));
}

#[test]
fn a_malformed_check_is_refused_with_an_example() {
    for (text, part) in [
        ("", "status==200"),
        ("status", "status==200"),
        ("status==abc", "between 100 and 599"),
        ("status in 200,999", "`999`"),
        ("staus==200", "`staus`"),
        ("body==1", "body contains"),
        ("body.length==1KB", "such as 1024"),
        ("body contains", "\"text\""),
        ("duration<500", "such as"),
        ("header.a b==1", "is not a check"),
        ("header.ä==1", "does not name a header field"),
        ("header.a contains b", "header field can only be compared"),
        ("json.==1", "is empty"),
        ("json.a in 1,2", "JSON value can only be compared"),
    ] {
        let error = Checks::parse(&[text.to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("--check"),
            "{text}: {error}"
        );
    }
    let twice = ["status==200".to_owned(), "status==200".to_owned()];
    let error = Checks::parse(&twice).unwrap_err().to_string();
    assert!(
        error.contains("driver.checks[1]") && error.contains("twice"),
        "{error}"
    );
}
