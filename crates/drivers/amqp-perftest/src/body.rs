//! The bodies of messages: of a size, of several sizes, JSON, or files.

use std::path::Path;

use load::plan::Invalid;

use crate::settings::Settings;
use amqp_client::stamp;

/// Returns the bodies of a run: one for each file or size.
pub(crate) fn bodies(settings: &Settings) -> Result<Vec<Vec<u8>>, Invalid> {
    let filled = |size: u32| {
        if settings.json_body {
            json(size as usize)
        } else {
            vec![b'x'; size as usize]
        }
    };
    if !settings.body.is_empty() {
        let files = settings.body.iter();
        return files.map(|path| body_of(path)).collect();
    }
    if settings.variable_size.is_empty() {
        return Ok(vec![filled(settings.size)]);
    }
    let sizes = settings.variable_size.iter();
    Ok(sizes.map(|of| filled(of.size)).collect())
}

/// Returns a JSON body: room for the stamp, then an object of fields, padded with spaces to `size` bytes.
fn json(size: usize) -> Vec<u8> {
    let mut body = vec![0; stamp::BYTES];
    for number in 0.. {
        let field = format!(
            "{}\"field-{number}\":\"value {number}\"",
            if number == 0 { "{" } else { "," }
        );
        // One more byte for the end of the object.
        if body.len() + field.len() >= size {
            break;
        }
        body.extend(field.into_bytes());
    }
    if body.len() > stamp::BYTES {
        body.push(b'}');
    }
    body.resize(size, b' ');
    body
}

fn body_of(path: &Path) -> Result<Vec<u8>, Invalid> {
    let content = std::fs::read(path).map_err(|error| {
        let field = format!("driver.body (--body {})", path.display());
        Invalid::new(field, format!("{error}: name a readable file"))
    })?;
    Ok([vec![0; stamp::BYTES], content].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_follows_the_stamp_and_fills_the_size() {
        for size in [28, 29, 60, 100, 1024, 1025] {
            let body = json(size);
            assert_eq!(body.len(), size);
            let text = std::str::from_utf8(&body[stamp::BYTES..]).unwrap().trim();
            let value: serde_json::Value = match text {
                "" => continue,
                text => serde_json::from_str(text).unwrap(),
            };
            assert!(value.as_object().is_some_and(|fields| !fields.is_empty()));
        }
    }
}
